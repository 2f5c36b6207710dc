//! The refusals of a lock layer, and their words.

use http::StatusCode;
use lock_core::error::{LostError, Rejection};
use lock_core::problem::Problem;
use lock_core::{AcquireError, Key};

use crate::answer::{Cause, Refusal, Reject, Reply};

impl<'a> Refusal<'a> {
    pub(super) fn of_acquire(error: &'a AcquireError) -> Self {
        let (cause, estimated_wait) = match error {
            AcquireError::Timeout(error) => (Cause::Timeout, error.estimated_wait()),
            AcquireError::Overloaded(full) if full.is_waiters_max() => {
                let detail = "too many requests wait for the same lock";
                let refusal = Self::capped(Cause::WaitersPerKey, "lock_waiters_per_key", detail);
                return Self { key: error.key(), error: Some(error), ..refusal };
            }
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

    /// As many wait for locks as the layer lets.
    pub(super) fn crowded(key: &'a Key) -> Self {
        let detail = "too many requests wait for locks";
        Self { key: Some(key), ..Self::capped(Cause::Waiters, "lock_waiters", detail) }
    }

    fn capped(cause: Cause, code: &'static str, detail: &'static str) -> Self {
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, code, detail);
        Self::new(cause, problem.come_back(None))
    }

    pub(super) fn of_key(reject: Reject) -> Self {
        let reply = reject.reply("lock_key_rejected", "the request names no lock key");
        Self::new(Cause::Key, reply)
    }

    pub(super) fn of_lost(error: &'a LostError) -> Self {
        let lost = Self::new(Cause::Lost, Reply::from(Problem::lost()).cut());
        Self { error: Some(error), key: Some(error.key()), ..lost }
    }

    /// The handler makes another connection of this one, and its lock would not last for that.
    pub(super) fn of_upgrade() -> Self {
        let detail = "this server cannot hold the lock for an upgraded connection";
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        let reply = Reply::new(status, "lock_upgrade_unheld", detail);
        Self::new(Cause::Misconfigured, reply.cut())
    }

    /// The task of a handler that had begun was dropped.
    pub(super) fn of_shutdown() -> Self {
        let detail = "this server was shut down while the work ran; what the work did is not known";
        let reply = Reply::new(StatusCode::SERVICE_UNAVAILABLE, "lock_closed", detail);
        Self::new(Cause::Closed, reply.cut())
    }
}
