//! Why a request is refused, with all that is known.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use lock_core::Key;

use super::cause::Cause;
use super::reply::Reply;

/// All facts of one refusal, as [`LockLayer::on_busy`](crate::LockLayer::on_busy) gets them, and
/// `IdempotencyLayer::on_refused`, with causes of its own.
///
/// Printed, it shows neither the key nor the head of the request, which may hold a password.
pub struct Refusal<'a, C = Cause> {
    pub(crate) cause: C,
    pub(crate) reply: Reply<'a>,
    pub(crate) error: Option<&'a (dyn StdError + Send + Sync + 'static)>,
    pub(crate) request: Option<&'a Parts>,
    // Only lock layers know these:
    pub(crate) key: Option<&'a Key>,
    pub(crate) estimated_wait: Option<Duration>,
    pub(crate) waited: Duration,
    pub(crate) tries: u32,
    /// Only an idempotency layer knows it.
    pub(crate) age: Option<Duration>,
}

impl<'a, C: Copy> Refusal<'a, C> {
    /// The cause of the refusal.
    #[must_use]
    pub fn cause(&self) -> C {
        self.cause
    }

    /// The status of the default answer: that of the cause, or the one that the layer's `status`
    /// gave it. To gRPC it is 200 all the same.
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

    /// The error of lock-core, where it is one: of a lock layer an
    /// [`AcquireError`](lock_core::AcquireError) or a [`LostError`](lock_core::error::LostError).
    #[must_use]
    pub fn error(&self) -> Option<&'a (dyn StdError + Send + Sync + 'static)> {
        self.error
    }

    /// The head of the request; `None` once the handler has it. Whatever its client has sent is in
    /// it, keys and passwords too: it is not for logs.
    #[must_use]
    pub fn request(&self) -> Option<&'a Parts> {
        self.request
    }

    /// The answer that is given unless the application gives its own, to gRPC in its own form.
    #[must_use]
    pub fn default_response(&self) -> Response<Full<Bytes>> {
        self.reply.response()
    }

    pub(crate) fn new(cause: C, reply: impl Into<Reply<'a>>) -> Self {
        Self {
            cause,
            reply: reply.into(),
            error: None,
            request: None,
            key: None,
            estimated_wait: None,
            waited: Duration::ZERO,
            tries: 0,
            age: None,
        }
    }
}

/// The refusals of a lock layer.
impl<'a> Refusal<'a> {
    /// The key, where there is one. It may hold what another client must not see.
    #[must_use]
    pub fn key(&self) -> Option<&'a Key> {
        self.key
    }

    /// The time spent waiting for the lock.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// How many tries were made; none by who was not let in.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// How long the lock would have taken, where that is known.
    #[must_use]
    pub fn estimated_wait(&self) -> Option<Duration> {
        self.estimated_wait
    }
}

impl<C: fmt::Debug> fmt::Debug for Refusal<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("cause", &self.cause)
            .field("reply", &self.reply)
            .field("estimated_wait", &self.estimated_wait)
            .field("waited", &self.waited)
            .field("tries", &self.tries)
            .field("age", &self.age)
            .finish_non_exhaustive()
    }
}
