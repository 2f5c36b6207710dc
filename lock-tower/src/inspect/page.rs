//! The page: three files, served as they are.

use axum_core::response::Response;

use super::answers::text_answer;

pub(super) fn document() -> Response {
    text_answer("text/html; charset=utf-8", include_str!("page.html"))
}

pub(super) fn script() -> Response {
    text_answer("text/javascript; charset=utf-8", include_str!("page.js"))
}

pub(super) fn style() -> Response {
    text_answer("text/css; charset=utf-8", include_str!("page.css"))
}
