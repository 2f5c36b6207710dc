//! axum: the client from the state, and lock failures as responses.

use std::time::Duration;

use axum_core::body::Body;
use axum_core::extract::FromRef;
use axum_core::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};

use super::{FromLockError, LockFailure};
use crate::engine::clock;
use crate::{AcquireError, LockClient, Rejection};

/// The client of an axum state.
pub fn client_of_state<S>(state: &S) -> Option<LockClient>
where
    LockClient: FromRef<S>,
{
    Some(LockClient::from_ref(state))
}

/// What a function that returns `impl IntoResponse` returns: the body's value, or a response about
/// the lock.
#[derive(Debug)]
pub enum Answer<T> {
    /// The body ran.
    Body(T),
    /// It did not, or not to its end.
    Failed(Response),
}

impl<T> Answer<T> {
    /// An answer without the body's value.
    pub fn failed(failure: impl IntoResponse) -> Self {
        Self::Failed(failure.into_response())
    }
}

impl<T: IntoResponse> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Body(value) => value.into_response(),
            Self::Failed(response) => response,
        }
    }
}

impl FromLockError for Response {
    fn from_lock_error(failure: LockFailure) -> Self {
        failure.into_response()
    }
}

/// A problem document (RFC 9457) with a stable `code`, and `Retry-After` where a later try may
/// succeed: the estimated wait where it is known, and up to a quarter of it at random on top. It
/// never has the key, which may be made of somebody's data.
///
/// | error | status | `code` |
/// |---|---|---|
/// | `Timeout` | 503 | `lock_timeout` |
/// | `Overloaded` | 503 | `lock_overloaded` |
/// | `Unavailable` | 503 | `lock_unavailable` |
/// | `NotReplicated` | 503 | `lock_not_replicated` |
/// | `Rejected`, a key that the request made too long or empty | 400 | `lock_key_rejected` |
/// | `Rejected`, anything else | 500 | `lock_rejected` |
/// | `Closed` | 503 | `lock_closed` |
/// | [`LockFailure::Lost`] | 503 | `lock_lost` |
impl IntoResponse for LockFailure {
    fn into_response(self) -> Response {
        problem(&Problem::of(&self))
    }
}

/// As [`LockFailure`]'s.
impl IntoResponse for AcquireError {
    fn into_response(self) -> Response {
        LockFailure::Acquire(self).into_response()
    }
}

struct Problem {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    retry_after: Option<Duration>,
}

/// What a client is told that may simply come back.
const SOON: Option<Duration> = Some(Duration::from_secs(1));

impl Problem {
    const fn new(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        retry_after: Option<Duration>,
    ) -> Self {
        Self { status, code, title, retry_after }
    }

    fn of(failure: &LockFailure) -> Self {
        match failure {
            LockFailure::Acquire(error) => Self::of_acquire(error),
            LockFailure::Lost(_) => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "lock_lost",
                "the lock was lost while the work ran",
                SOON,
            ),
        }
    }

    fn of_acquire(error: &AcquireError) -> Self {
        match error {
            AcquireError::Timeout(error) => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "lock_timeout",
                "others are at work on this",
                error.estimated_wait().or(SOON),
            ),
            AcquireError::Overloaded(error) => {
                let retry_after = Some(error.retry_after());
                Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "lock_overloaded",
                    "too many wait for this already",
                    retry_after,
                )
            }
            AcquireError::Unavailable(error) => {
                let retry_after = if error.is_retryable() { SOON } else { None };
                Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "lock_unavailable",
                    "the lock service is unavailable",
                    retry_after,
                )
            }
            AcquireError::NotReplicated(_) => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "lock_not_replicated",
                "the lock could not be kept safe",
                SOON,
            ),
            AcquireError::Rejected(Rejection::Key(_)) => Self::new(
                StatusCode::BAD_REQUEST,
                "lock_key_rejected",
                "this can't be the name of a lock",
                None,
            ),
            AcquireError::Rejected(_) => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "lock_rejected",
                "the lock is not set up as it should be",
                None,
            ),
            AcquireError::Closed(_) => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "lock_closed",
                "this process is shutting down",
                SOON,
            ),
        }
    }
}

fn problem(problem: &Problem) -> Response {
    let Problem { status, code, title, retry_after } = problem;
    let number = status.as_u16();
    // Fixed texts without quotes or backslashes, so nothing needs escaping.
    let body =
        format!(r#"{{"type":"about:blank","title":"{title}","status":{number},"code":"{code}"}}"#);
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = *status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(after) = retry_after {
        // Rounded up: a client that comes back early has to wait again.
        let secs = (after.as_secs() + u64::from(after.subsec_nanos() > 0)).max(1);
        // Those who were refused together must not come back together.
        let jitter = u64::from(clock::random_bits()) % (secs / 4).max(1).saturating_add(1);
        headers.insert(RETRY_AFTER, HeaderValue::from(secs.saturating_add(jitter)));
    }
    response
}
