//! Answers: those that nobody keeps, and refusals.

use std::borrow::Cow;
use std::time::Duration;

use axum_core::body::Body;
use axum_core::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use lock_core::problem::Problem;
use serde_json::Value;

/// A store that does not answer may do so soon.
const STORE_RETRY_AFTER: Duration = Duration::from_secs(2);

pub(super) fn bad_key(detail: &str) -> Response {
    refuse(StatusCode::BAD_REQUEST, "inspect_key", detail, None)
}

/// The store's own words are for those who may see the locks: no URL and no password is in them.
pub(super) fn unavailable(error: &dyn std::error::Error) -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    refuse(status, "inspect_unavailable", &error.to_string(), Some(STORE_RETRY_AFTER))
}

pub(super) fn refuse(
    status: StatusCode,
    code: &'static str,
    detail: &str,
    retry_after: Option<Duration>,
) -> Response {
    let problem = Problem::new(status, code, detail);
    let problem = match retry_after {
        Some(after) => problem.come_back(Some(after)),
        None => problem,
    };
    problem.response().map(Body::from)
}

pub(super) fn json_answer(value: &Value) -> Response {
    text_answer("application/json", value.to_string())
}

/// An answer that nobody keeps.
pub(super) fn text_answer(kind: &'static str, text: impl Into<Cow<'static, str>>) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, text.into()).into_response()
}
