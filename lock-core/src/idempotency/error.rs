//! The errors of the engine, one type per operation.

use std::error::Error;
use std::fmt;

use super::options::BeginRejection;
use crate::backend::Fault;
use crate::error::AcquireError;
use crate::records::RecordId;
use crate::token::FencingToken;

/// Why it is not known whether an execution may begin. Nothing was run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum BeginError {
    /// The record store could not be asked, or its answer is unknown. A claim that was made all
    /// the same is taken back in the background.
    Records {
        /// The record.
        id: RecordId,
        /// The fault of the store.
        fault: Fault,
    },
    /// The lock could not be had, for another reason than that an execution is in flight.
    Lock(AcquireError),
    /// The scope, the key or an option is out of bounds; nothing was sent.
    Rejected(BeginRejection),
}

impl fmt::Display for BeginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Records { id, fault } => {
                write!(f, "idempotency record {id} unavailable: {fault}")
            }
            Self::Lock(error) => error.fmt(f),
            Self::Rejected(error) => error.fmt(f),
        }
    }
}

impl Error for BeginError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Records { fault, .. } => fault.source(),
            Self::Lock(error) => error.source(),
            Self::Rejected(error) => error.source(),
        }
    }
}

impl From<AcquireError> for BeginError {
    fn from(error: AcquireError) -> Self {
        Self::Lock(error)
    }
}

impl From<BeginRejection> for BeginError {
    fn from(error: BeginRejection) -> Self {
        Self::Rejected(error)
    }
}

impl BeginError {
    /// Whether the record store or the lock store was out of reach or had too few replicas, or the
    /// client shut down.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Records { .. } => true,
            Self::Lock(error) => {
                error.is_unavailable() || error.is_not_replicated() || error.is_closed()
            }
            Self::Rejected(_) => false,
        }
    }

    /// Whether too many wait in this process already.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        matches!(self, Self::Lock(error) if error.is_overloaded())
    }

    /// Whether the input was refused.
    #[must_use]
    pub fn is_rejected(&self) -> bool {
        match self {
            Self::Rejected(_) => true,
            Self::Lock(error) => error.is_rejected(),
            Self::Records { .. } => false,
        }
    }

    /// Whether the same call may succeed later without a change by the caller.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Records { fault, .. } => fault.is_transient(),
            Self::Lock(error) => error.is_retryable(),
            Self::Rejected(_) => false,
        }
    }
}

/// Why an outcome is not known to be kept.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CompleteError {
    /// Another execution has taken over, or the record has lived its time. The outcome was dropped.
    /// Where this execution writes elsewhere, the resource refuses it by the token.
    Stale {
        /// The record.
        id: RecordId,
        /// The token of the execution.
        token: FencingToken,
    },
    /// The store did not take it within 2 s, or refuses. The execution has happened, and its caller
    /// may be answered. The record stays in flight. Unless the store refuses, the write goes on in
    /// the background, under the lock. For an outcome it goes on for the record's
    /// [`in_flight_ttl`](super::Idempotency::with_in_flight_ttl) or 10 minutes, whichever is less,
    /// and one whole try (5 s at most) after that. For an abort it goes on for 30 s.
    Unavailable {
        /// The record.
        id: RecordId,
        /// The fault of the store.
        fault: Fault,
    },
}

impl fmt::Display for CompleteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { id, token } => {
                write!(f, "idempotency record {id} is not in flight under token {token} any more")
            }
            Self::Unavailable { id, fault } => {
                write!(f, "idempotency record {id} may not be written: {fault}")
            }
        }
    }
}

impl Error for CompleteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Stale { .. } => None,
            Self::Unavailable { fault, .. } => fault.source(),
        }
    }
}

impl CompleteError {
    /// Whether another execution has taken over.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. })
    }

    /// Whether the store did not take the outcome in time.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backend::NotReplicated;
    use crate::error::NotReplicatedError;
    use crate::key::Key;

    #[test]
    fn too_few_replicas_are_an_outage_that_may_pass_and_no_fault_of_the_caller() {
        let timeout = Duration::from_millis(50);
        let not_replicated = NotReplicated { wanted: 1, acknowledged: 0, timeout };
        let key = Key::new("k").unwrap();
        let error =
            BeginError::Lock(NotReplicatedError { key, not_replicated, is_reentry: false }.into());
        assert!(error.is_unavailable() && error.is_retryable() && !error.is_rejected());
    }
}
