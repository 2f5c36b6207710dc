//! Why a request is refused, with all that is known.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use lock_core::{AcquireError, Key, LostError, Rejection};

use super::problem::{problem, retry_after};
use crate::key::KeyReject;

/// Why the handler did not run, or not to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Others held the lock until the budget was used up.
    Timeout,
    /// The line of the key takes longer than the budget, see
    /// [`admission`](crate::LockLayer::admission), or lock-core's own line of this process is full.
    Overloaded,
    /// The layer's cap on waiters of one key.
    WaitersPerKey,
    /// The layer's cap on waiters of all keys.
    Waiters,
    /// The store could not be asked.
    Unavailable,
    /// The lock was lost while the handler ran; the handler was stopped.
    Lost,
    /// The extractor refused the request, or its key is out of bounds.
    Key,
    /// An option of the layer is out of bounds.
    Misconfigured,
    /// The lock client is shut down.
    Closed,
}

/// All facts of one refusal, as [`on_busy`](crate::LockLayer::on_busy) gets them.
///
/// Printed, it shows neither the key nor the head of the request, which may hold a password.
pub struct Refusal<'a> {
    pub(crate) cause: Cause,
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) detail: Cow<'a, str>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) estimated_wait: Option<Duration>,
    pub(crate) key: Option<&'a Key>,
    pub(crate) error: Option<&'a (dyn StdError + Send + Sync + 'static)>,
    pub(crate) request: Option<&'a Parts>,
    pub(crate) waited: Duration,
    pub(crate) tries: u32,
}

impl<'a> Refusal<'a> {
    /// What stood in the way.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// The status of the default answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The stable code of the default answer.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The sentence for people of the default answer.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The key, where there is one. It may hold what another client must not see.
    #[must_use]
    pub fn key(&self) -> Option<&'a Key> {
        self.key
    }

    /// The error of lock-core, where it is one: an [`AcquireError`] or a [`LostError`].
    #[must_use]
    pub fn error(&self) -> Option<&'a (dyn StdError + Send + Sync + 'static)> {
        self.error
    }

    /// The head of the request; `None` once the handler has it.
    #[must_use]
    pub fn request(&self) -> Option<&'a Parts> {
        self.request
    }

    /// The time spent waiting for the lock.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// How many tries were made.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// How long the lock would have taken, where that is known.
    #[must_use]
    pub fn estimated_wait(&self) -> Option<Duration> {
        self.estimated_wait
    }

    /// The `Retry-After` of the default answer, whole seconds with their jitter; `None` where
    /// coming back does not help.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The answer that is given without an [`on_busy`](crate::LockLayer::on_busy).
    #[must_use]
    pub fn default_response(&self) -> Response<Full<Bytes>> {
        problem(self.status, self.code, &self.detail, self.retry_after)
    }

    fn new(cause: Cause, status: StatusCode, code: &'static str, detail: &'a str) -> Self {
        Self {
            cause,
            status,
            code,
            detail: Cow::Borrowed(detail),
            retry_after: None,
            estimated_wait: None,
            key: None,
            error: None,
            request: None,
            waited: Duration::ZERO,
            tries: 0,
        }
    }

    fn come_back(mut self, estimated_wait: Option<Duration>) -> Self {
        self.estimated_wait = estimated_wait;
        self.retry_after = Some(retry_after(estimated_wait.unwrap_or_default()));
        self
    }

    pub(crate) fn of_acquire(error: &'a AcquireError, busy_status: StatusCode) -> Self {
        use StatusCode as S;
        let new = Self::new;
        let unavailable = S::SERVICE_UNAVAILABLE;
        let refusal = match error {
            AcquireError::Timeout(error) => {
                let detail = "others held the lock for as long as this request may wait";
                new(Cause::Timeout, busy_status, "lock_timeout", detail)
                    .come_back(error.estimated_wait())
            }
            AcquireError::Overloaded(error) => {
                let detail = "too many requests wait for the lock";
                new(Cause::Overloaded, unavailable, "lock_overloaded", detail)
                    .come_back(error.estimated_wait())
            }
            AcquireError::Rejected(Rejection::Key(_)) => {
                let detail = "the lock key is empty or too long";
                new(Cause::Key, S::BAD_REQUEST, "lock_key_rejected", detail)
            }
            AcquireError::Rejected(error) => {
                tracing::error!(%error, "the lock layer is set up wrongly");
                let detail = "the lock layer is set up wrongly";
                new(Cause::Misconfigured, S::INTERNAL_SERVER_ERROR, "lock_misconfigured", detail)
            }
            AcquireError::Closed(_) => {
                let detail = "this server takes no more locks";
                new(Cause::Closed, unavailable, "lock_closed", detail).come_back(None)
            }
            AcquireError::NotReplicated(error) => {
                tracing::warn!(%error, "a request got no lock");
                let detail = "too few replicas of the lock service are there";
                let code = "lock_not_replicated";
                new(Cause::Unavailable, unavailable, code, detail).come_back(None)
            }
            error => {
                tracing::warn!(%error, "a request got no lock");
                let detail = "the lock service is out of reach";
                new(Cause::Unavailable, unavailable, "lock_unavailable", detail).come_back(None)
            }
        };
        Self { error: Some(error), key: error.key(), ..refusal }
    }

    pub(crate) fn of_cap(cause: Cause, estimated_wait: Option<Duration>) -> Self {
        let (code, detail) = match cause {
            Cause::WaitersPerKey => {
                ("lock_waiters_per_key", "too many requests wait for the same lock")
            }
            _ => ("lock_waiters", "too many requests wait for locks"),
        };
        Self::new(cause, StatusCode::TOO_MANY_REQUESTS, code, detail).come_back(estimated_wait)
    }

    pub(crate) fn of_key(reject: &'a KeyReject) -> Self {
        Self::new(Cause::Key, reject.status(), reject.code(), reject.detail())
    }

    pub(crate) fn of_lost(error: &'a LostError) -> Self {
        let detail = "the lock was lost while the request ran; what it did may be undone or not";
        let lost = Self::new(Cause::Lost, StatusCode::SERVICE_UNAVAILABLE, "lock_lost", detail);
        Self { error: Some(error), key: Some(error.key()), ..lost.come_back(None) }
    }

    pub(crate) fn of_shutdown() -> Self {
        let detail = "this server is shutting down";
        Self::new(Cause::Closed, StatusCode::SERVICE_UNAVAILABLE, "lock_closed", detail)
            .come_back(None)
    }
}

impl fmt::Debug for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("cause", &self.cause)
            .field("status", &self.status)
            .field("code", &self.code)
            .field("detail", &self.detail)
            .field("retry_after", &self.retry_after)
            .field("estimated_wait", &self.estimated_wait)
            .field("waited", &self.waited)
            .field("tries", &self.tries)
            .finish_non_exhaustive()
    }
}
