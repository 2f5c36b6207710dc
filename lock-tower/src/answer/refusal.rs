//! Why a request is refused, with all that is known.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use lock_core::{AcquireError, Key, LostError, Problem, Rejection};

use super::reply::Reply;
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
    /// The store could not be asked, or too few replicas have acknowledged the grant.
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
    pub(crate) reply: Reply<'a>,
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

    /// The status of the default answer: that of the cause, or the one
    /// [given for it](crate::LockLayer::status). To gRPC it is 200 all the same.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.reply.problem().status()
    }

    /// The stable code of the default answer.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.reply.problem().code()
    }

    /// The sentence for people of the default answer.
    #[must_use]
    pub fn detail(&self) -> &str {
        self.reply.problem().detail()
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
        self.reply.problem().retry_after()
    }

    /// Whether the request is of gRPC, which has answers of its own: see the
    /// [module](crate::answer#grpc).
    #[must_use]
    pub fn is_grpc(&self) -> bool {
        self.reply.is_grpc()
    }

    /// The answer that is given without an [`on_busy`](crate::LockLayer::on_busy), to gRPC in its
    /// own form.
    #[must_use]
    pub fn default_response(&self) -> Response<Full<Bytes>> {
        self.reply.response()
    }

    fn new(cause: Cause, reply: impl Into<Reply<'a>>) -> Self {
        Self {
            cause,
            reply: reply.into(),
            estimated_wait: None,
            key: None,
            error: None,
            request: None,
            waited: Duration::ZERO,
            tries: 0,
        }
    }

    pub(crate) fn of_acquire(error: &'a AcquireError) -> Self {
        let (cause, estimated_wait) = match error {
            AcquireError::Timeout(error) => (Cause::Timeout, error.estimated_wait()),
            AcquireError::Overloaded(error) => (Cause::Overloaded, error.estimated_wait()),
            AcquireError::Rejected(Rejection::Key(_)) => (Cause::Key, None),
            AcquireError::Rejected(error) => {
                tracing::error!(%error, "the lock layer is set up wrongly");
                (Cause::Misconfigured, None)
            }
            AcquireError::Closed(_) => (Cause::Closed, None),
            AcquireError::Lost(error) => return Self::of_lost(error),
            error => {
                tracing::warn!(%error, "a request got no lock");
                (Cause::Unavailable, None)
            }
        };
        let refusal = Self::new(cause, Problem::of(error));
        Self { error: Some(error), key: error.key(), estimated_wait, ..refusal }
    }

    pub(crate) fn of_cap(cause: Cause) -> Self {
        let (code, detail) = match cause {
            Cause::WaitersPerKey => {
                ("lock_waiters_per_key", "too many requests wait for the same lock")
            }
            _ => ("lock_waiters", "too many requests wait for locks"),
        };
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, code, detail);
        Self::new(cause, problem.come_back(None))
    }

    pub(crate) fn of_key(reject: &'a KeyReject) -> Self {
        Self::new(Cause::Key, Reply::new(reject.status(), reject.code(), reject.detail()))
    }

    pub(crate) fn of_lost(error: &'a LostError) -> Self {
        let lost = Self::new(Cause::Lost, Reply::from(Problem::lost()).cut());
        Self { error: Some(error), key: Some(error.key()), ..lost }
    }

    /// The task of a handler that had begun was dropped.
    pub(crate) fn of_shutdown() -> Self {
        let detail = "this server was shut down while the work ran; what the work did is not known";
        let reply = Reply::new(StatusCode::SERVICE_UNAVAILABLE, "lock_closed", detail);
        Self::new(Cause::Closed, reply.cut())
    }
}

impl fmt::Debug for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("cause", &self.cause)
            .field("reply", &self.reply)
            .field("estimated_wait", &self.estimated_wait)
            .field("waited", &self.waited)
            .field("tries", &self.tries)
            .finish_non_exhaustive()
    }
}
