//! The answer over HTTP when there was no lock: one table for the macro and the layers.

use std::borrow::Cow;
use std::time::Duration;

pub use ::http;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use crate::AcquireError;
use crate::error::Rejection;
use crate::ground::clock;

/// A problem document (RFC 9457) about a lock: what a service answers in place of the work.
///
/// It has a `code` that stays the same over versions, and `Retry-After` where coming back may help.
/// `#[distributed_lock]` and `lock_tower::LockLayer` answer with the same document for the same
/// error:
///
/// | [`AcquireError`] | status | `code` | `Retry-After` |
/// |---|---|---|---|
/// | `Timeout` | 409 | `lock_timeout` | yes |
/// | `Overloaded` | 429 | `lock_overloaded` | yes |
/// | `Unavailable` | 503 | `lock_unavailable` | where the fault [may pass](crate::error::UnavailableError::is_retryable) |
/// | `NotReplicated` | 503 | `lock_not_replicated` | yes, but for a [re-entry](crate::error::NotReplicatedError::is_reentry), which is always refused |
/// | `Closed` | 503 | `lock_closed` | yes, as another process may serve it |
/// | `Lost` | 503 | `lock_lost` | no: what the work did is not known |
/// | `Rejected`, a key that the request made too long or empty | 400 | `lock_key_rejected` | no |
/// | `Rejected`, anything else | 500 | `lock_misconfigured` | no |
///
/// 429 is for what the caller may try again later. 503 is for a service that is down: a load
/// balancer takes a server that answers 503 out of service.
///
/// `Retry-After` is the estimated wait in whole seconds, rounded up, at least 1. Up to a quarter of
/// it (at least up to 1 s) is added at random, so that those who were refused together do not come
/// back together. The key is never in the document, as it may be made of somebody's data.
///
/// For a framework other than axum, or with another status:
///
/// ```
/// use http::StatusCode;
/// use lock_core::problem::Problem;
/// use lock_core::AcquireError;
///
/// fn answer(error: &AcquireError) -> http::Response<String> {
///     let problem = Problem::of(error);
///     if error.is_timeout() {
///         return problem.with_status(StatusCode::LOCKED).response();
///     }
///     problem.response()
/// }
/// # let _ = answer;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem<'a> {
    status: StatusCode,
    code: &'static str,
    detail: Cow<'a, str>,
    retry_after: Option<Duration>,
}

impl Problem<'static> {
    /// The answer to a client about this error. The jitter of `Retry-After` is drawn here.
    #[must_use]
    pub fn of(error: &AcquireError) -> Self {
        use StatusCode as S;
        let new = Self::new;
        match error {
            AcquireError::Timeout(error) => {
                let detail = "others held the lock for as long as this request may wait";
                new(S::CONFLICT, "lock_timeout", detail).come_back(error.estimated_wait())
            }
            AcquireError::Overloaded(error) => {
                let detail = "too many requests wait for the lock";
                let problem = new(S::TOO_MANY_REQUESTS, "lock_overloaded", detail);
                problem.come_back(error.estimated_wait())
            }
            AcquireError::Unavailable(error) => {
                let detail = "the lock service is out of reach";
                let problem = new(S::SERVICE_UNAVAILABLE, "lock_unavailable", detail);
                if error.is_retryable() { problem.come_back(None) } else { problem }
            }
            AcquireError::NotReplicated(error) => {
                let (status, code) = (S::SERVICE_UNAVAILABLE, "lock_not_replicated");
                if error.is_reentry() {
                    let detail = "the lock is held here, and was taken with too few replicas";
                    return new(status, code, detail);
                }
                let detail = "too few replicas of the lock service are there";
                new(status, code, detail).come_back(None)
            }
            AcquireError::Rejected(Rejection::Key(_)) => {
                new(S::BAD_REQUEST, "lock_key_rejected", "the lock key is empty or too long")
            }
            AcquireError::Rejected(_) => {
                let detail = "the lock is set up wrongly";
                new(S::INTERNAL_SERVER_ERROR, "lock_misconfigured", detail)
            }
            AcquireError::Closed(_) => {
                let detail = "this server takes no more locks";
                new(S::SERVICE_UNAVAILABLE, "lock_closed", detail).come_back(None)
            }
            AcquireError::Lost(_) => Self::lost(),
        }
    }

    /// That of a hold that was lost while the work ran.
    #[doc(hidden)]
    #[must_use]
    pub fn lost() -> Self {
        let detail = "the lock was lost while the work ran; what the work did is not known";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "lock_lost", detail)
    }
}

impl<'a> Problem<'a> {
    /// For lock-tower, which has codes of its own.
    #[doc(hidden)]
    #[must_use]
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<Cow<'a, str>>) -> Self {
        Self { status, code, detail: detail.into(), retry_after: None }
    }

    /// Says that coming back may help, after the estimate and a jitter.
    #[doc(hidden)]
    #[must_use]
    pub fn come_back(mut self, estimated_wait: Option<Duration>) -> Self {
        let secs = retry_after_s(estimated_wait.unwrap_or_default(), clock::random_bits());
        self.retry_after = Some(Duration::from_secs(secs));
        self
    }

    /// Replaces the status; the code stays.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The stable code that programs read.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The sentence that people read.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// When to come back, in whole seconds with their jitter; `None` where coming back does not
    /// help.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The response: the document as `application/problem+json`, with `Cache-Control: no-store`
    /// and `Retry-After`.
    #[must_use]
    pub fn response(&self) -> Response<String> {
        let mut document = serde_json::json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Refused"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        let mut response = Response::new(String::new());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(after) = self.retry_after {
            document["retry_after"] = after.as_secs().into();
            headers.insert(RETRY_AFTER, after.as_secs().into());
        }
        *response.body_mut() = document.to_string();
        response
    }
}

fn retry_after_s(estimate: Duration, random: u32) -> u64 {
    // Rounded up: a client that comes back early has to wait again.
    let whole = estimate.as_secs().saturating_add((estimate.subsec_nanos() > 0).into());
    let whole = whole.max(1);
    let spread = (whole / 4).max(1);
    whole.saturating_add(u64::from(random) % (spread + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::NotReplicated;
    use crate::error::NotReplicatedError;
    use crate::key::Key;

    #[test]
    fn nobody_comes_back_for_a_re_entry_that_lacks_replicas() {
        for is_reentry in [false, true] {
            let key = Key::new("order:42").unwrap();
            let timeout = Duration::ZERO;
            let not_replicated = NotReplicated { wanted: 2, acknowledged: 0, timeout };
            let error = NotReplicatedError { key, not_replicated, is_reentry }.into();
            let problem = Problem::of(&error);
            assert_eq!((problem.status().as_u16(), problem.code()), (503, "lock_not_replicated"));
            assert_eq!(problem.retry_after().is_none(), is_reentry);
            assert_eq!(error.is_retryable(), !is_reentry);
        }
    }

    #[test]
    fn retry_after_is_the_estimate_rounded_up_with_a_quarter_of_jitter() {
        for (estimate_ms, least, most) in
            [(0, 1, 2), (1, 1, 2), (1_000, 1, 2), (1_001, 2, 3), (8_000, 8, 10), (60_000, 60, 75)]
        {
            let estimate = Duration::from_millis(estimate_ms);
            let all: Vec<_> = (0..1_000).map(|random| retry_after_s(estimate, random)).collect();
            assert_eq!(all.iter().min(), Some(&least));
            assert_eq!(all.iter().max(), Some(&most));
        }
    }

    #[test]
    fn an_endless_estimate_does_not_overflow() {
        assert_eq!(retry_after_s(Duration::MAX, u32::MAX), u64::MAX);
    }
}
