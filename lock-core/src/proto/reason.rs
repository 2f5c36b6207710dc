//! Why a wait, or a hold, is over.

use std::fmt;

use crate::token::FencingToken;

/// The obstacle when a wait ran out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockedBy {
    /// A guard of this very client: perhaps of the same task, see
    /// [`LockGuard::scope`](crate::LockGuard::scope).
    ThisClient {
        /// The token of the guard that held the lock.
        token: FencingToken,
    },
    /// Claims of other clients, as many as the store reported ahead.
    Others {
        /// Claims ahead, the holder included, where the store tells.
        ahead: Option<u32>,
    },
}

impl fmt::Display for BlockedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisClient { token } => {
                write!(f, "this client holds it under token {token}")
            }
            Self::Others { ahead: Some(ahead) } => {
                write!(f, "{ahead} claims of other clients were ahead")
            }
            Self::Others { ahead: None } => f.write_str("another client holds it"),
        }
    }
}

/// The cause that ended a hold before its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The lease ran out by this process's own clock: no renewal was answered in time.
    Expired,
    /// The store answered that the claim holds nothing any more.
    Taken,
    /// The guard lived longer than its `hold_limit`.
    HoldLimit,
    /// The client was shut down and the deadline passed.
    Shutdown,
}
