//! Answers: those that nobody keeps, and refusals.

use std::time::Duration;

use axum_core::body::Body;
use axum_core::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use lock_core::error::{ListError, OperatorError};
use lock_core::problem::Problem;
use serde_json::Value;

/// A store that does not answer may do so soon.
const STORE_RETRY_AFTER: Duration = Duration::from_secs(2);

pub(super) fn bad_key(detail: &str) -> Response {
    refuse(StatusCode::BAD_REQUEST, "inspect_key", detail, None)
}

/// The store's own words are for those who may see the locks: no URL and no password is in them.
pub(super) fn failed(error: &OperatorError) -> Response {
    let detail = error.to_string();
    match error {
        OperatorError::Key(_) => bad_key(&detail),
        OperatorError::Unsupported { .. } => unsupported(&detail),
        _ => unavailable(&detail),
    }
}

/// The same of a list of all keys.
pub(super) fn not_listed(error: &ListError) -> Response {
    let detail = error.to_string();
    if error.is_unsupported() { unsupported(&detail) } else { unavailable(&detail) }
}

fn unsupported(detail: &str) -> Response {
    refuse(StatusCode::NOT_IMPLEMENTED, "inspect_unsupported", detail, None)
}

fn unavailable(detail: &str) -> Response {
    let (status, after) = (StatusCode::SERVICE_UNAVAILABLE, Some(STORE_RETRY_AFTER));
    refuse(status, "inspect_unavailable", detail, after)
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
pub(super) fn text_answer(kind: &'static str, text: impl Into<Body>) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, text.into()).into_response()
}
