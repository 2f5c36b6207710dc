//! Why a function has no value of its own.

use std::time::Duration;

use crate::idempotency::{BeginError, CompleteError};
use crate::{KeyError, LostError};

/// Why a function under `#[idempotent]` has neither run to its end nor been replayed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IdempotencyError {
    /// It is not known whether it may run; nothing was run.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// The key or the scope is empty or too long; nothing was run.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What the fingerprint is made of could not be serialised; nothing was run.
    #[error("the fingerprint of this call could not be made: {reason}")]
    Fingerprint {
        /// What the serialiser said.
        reason: String,
    },
    /// A call with this key runs, and did not end in time.
    #[error("a call with this idempotency key is running since {age:?}")]
    InFlight {
        /// The time since it began; zero where that is not known.
        age: Duration,
    },
    /// The key was used for a call of another function, or with another fingerprint.
    #[error("this idempotency key was used for another call")]
    Mismatch,
    /// It has run, and its value could not be kept.
    #[error("the call with this idempotency key has ended, and its value was not kept")]
    Tombstone,
    /// It was begun, and left no outcome.
    #[error("the call with this idempotency key began {age:?} ago, and its outcome is unknown")]
    Unknown {
        /// The time since it began.
        age: Duration,
    },
    /// The lock was lost while the body ran, so it was dropped at an `.await`. The next call finds
    /// an outcome that is unknown.
    #[error(transparent)]
    Lost(#[from] LostError),
    /// The body has ended too late: another call has taken over, and its outcome counts.
    #[error("the call ended too late: {0}")]
    Stale(#[source] CompleteError),
    /// What was kept is no value of the function's type: the type has changed since.
    #[error("the value that was kept can't be read: {reason}")]
    Unreadable {
        /// What the deserialiser said.
        reason: String,
    },
}

impl IdempotencyError {
    /// Whether the same call may succeed later without a change by the caller.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Begin(error) => error.is_retryable(),
            Self::InFlight { .. } | Self::Lost(_) | Self::Stale(_) => true,
            Self::Key(_)
            | Self::Fingerprint { .. }
            | Self::Mismatch
            | Self::Tombstone
            | Self::Unknown { .. }
            | Self::Unreadable { .. } => false,
        }
    }
}
