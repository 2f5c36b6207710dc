//! What can go wrong, one type per operation. Nothing is ever mixed up: a bound that was hit, a
//! full line, a store out of reach, bad input and a closed client are different variants.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use crate::backend::ConnectError;
use crate::backend::{Fault, NotReplicated};
pub use crate::engine::RenewalFailure;
use crate::key::Key;
pub use crate::key::KeyError;
#[cfg(feature = "macros")]
pub use crate::macro_support::FromLockError;
#[cfg(feature = "http")]
pub use crate::problem::Problem;
pub use crate::proto::{BlockedBy, LossReason};
pub use crate::rejection::Rejection;
use crate::token::FencingToken;

/// Why an acquire gave no guard.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The budget `wait * (1 + retries)` ran out while others held the lock.
    #[error(transparent)]
    Timeout(#[from] TimeoutError),
    /// The line is full or, with `admission`, too slow, so waiting was refused.
    #[error(transparent)]
    Overloaded(#[from] OverloadedError),
    /// The store could not be asked, or its answer is unknown. A grant that was made all the same
    /// is given back in the background.
    #[error(transparent)]
    Unavailable(#[from] UnavailableError),
    /// Fewer [`replicas`](crate::LockOptions::replicas) than asked for acknowledged the grant in
    /// time. It is given back in the background. Or they acknowledged the grant of the hold that
    /// this was to re-enter, which goes on: see [`NotReplicatedError::is_reentry`].
    #[error(transparent)]
    NotReplicated(#[from] NotReplicatedError),
    /// The key or an option is out of bounds; nothing was sent.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The client was shut down.
    #[error(transparent)]
    Closed(#[from] ClosedError),
    /// The lock was held and then lost, so the work under it was stopped in the middle: it may have
    /// done everything, a part, or nothing. Only code that runs work under a lock and has no other
    /// error type says this, as `#[distributed_lock]` does. Waiting for a lock never ends so.
    #[error(transparent)]
    Lost(#[from] LostError),
}

impl AcquireError {
    /// Whether the budget ran out.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout(_))
    }

    /// Whether waiting was refused.
    #[must_use]
    pub fn is_overloaded(&self) -> bool {
        matches!(self, Self::Overloaded(_))
    }

    /// Whether the store was out of reach.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// Whether the store was there, and its replicas were not.
    #[must_use]
    pub fn is_not_replicated(&self) -> bool {
        matches!(self, Self::NotReplicated(_))
    }

    /// Whether the input was refused.
    #[must_use]
    pub fn is_rejected(&self) -> bool {
        matches!(self, Self::Rejected(_))
    }

    /// Whether the client was shut down.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }

    /// Whether the lock was held and lost, so that work under it was stopped in the middle.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_))
    }

    /// Whether the same call may succeed later without a change by the caller. False for work that
    /// was stopped in the middle: whether it may run again is not for the lock to say.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Overloaded(_) => true,
            // The hold stays as it was made, however often it is asked for.
            Self::NotReplicated(error) => !error.is_reentry(),
            Self::Unavailable(error) => error.is_retryable(),
            Self::Rejected(_) | Self::Closed(_) | Self::Lost(_) => false,
        }
    }

    /// The key that was asked for, where the input was good enough to make one.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Timeout(error) => Some(error.key()),
            Self::Overloaded(error) => Some(error.key()),
            Self::Unavailable(error) => Some(error.key()),
            Self::NotReplicated(error) => Some(error.key()),
            Self::Rejected(error) => error.key(),
            Self::Closed(error) => Some(error.key()),
            Self::Lost(error) => Some(error.key()),
        }
    }
}

impl From<KeyError> for AcquireError {
    fn from(error: KeyError) -> Self {
        Self::Rejected(error.into())
    }
}

/// The budget ran out while others held the lock.
#[derive(Debug, Clone, thiserror::Error)]
#[error("lock `{key}` not acquired in {waited:?}, in {tries} tries of {wait:?}: {blocked_by}")]
pub struct TimeoutError {
    pub(crate) key: Key,
    pub(crate) wait: Duration,
    pub(crate) waited: Duration,
    pub(crate) tries: u32,
    pub(crate) blocked_by: BlockedBy,
    pub(crate) estimated_wait: Option<Duration>,
}

impl TimeoutError {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The bound of one try.
    #[must_use]
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// The time from the call to this error.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// How many tries were made.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// How long one who had arrived at that moment was likely to wait, where that is known.
    #[must_use]
    pub fn estimated_wait(&self) -> Option<Duration> {
        self.estimated_wait
    }

    /// What stood in the way at the end.
    #[must_use]
    pub fn blocked_by(&self) -> &BlockedBy {
        &self.blocked_by
    }
}

/// Waiting was refused: the line for a key is full in this process, or too slow for the budget.
#[derive(Debug, Clone, thiserror::Error)]
#[error("lock `{key}` is overloaded: {}", self.reason())]
pub struct OverloadedError {
    pub(crate) key: Key,
    pub(crate) waiters: usize,
    pub(crate) bound: OverloadBound,
    pub(crate) estimated_wait: Option<Duration>,
}

/// What a waiter would have gone beyond.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OverloadBound {
    /// `waiters_per_key_max` of the client.
    Waiters(usize),
    /// [`Acquire::waiters_max`](crate::futures::Acquire::waiters_max).
    OwnWaiters(usize),
    /// What was left of its budget.
    Budget(Duration),
}

impl OverloadedError {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// How many waited in this process.
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.waiters
    }

    /// How long the line would have taken, where that is known.
    #[must_use]
    pub fn estimated_wait(&self) -> Option<Duration> {
        self.estimated_wait
    }

    /// Whether it was the bound of [`Acquire::waiters_max`](crate::futures::Acquire::waiters_max), and not
    /// that of the client or the budget.
    #[must_use]
    pub fn is_waiters_max(&self) -> bool {
        matches!(self.bound, OverloadBound::OwnWaiters(_))
    }

    /// When to come back: the estimate, at least one second.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        self.estimated_wait.unwrap_or_default().max(Duration::from_secs(1))
    }

    fn reason(&self) -> String {
        let waiters = self.waiters;
        match (self.bound, self.estimated_wait) {
            (OverloadBound::Waiters(max) | OverloadBound::OwnWaiters(max), _) => {
                format!("it has {waiters} waiters in this process, at most {max} are allowed")
            }
            (OverloadBound::Budget(left), Some(estimate)) => format!(
                "behind {waiters} waiters in this process the wait is estimated at {estimate:.1?}, \
                 and {left:.1?} are left of the budget"
            ),
            (OverloadBound::Budget(left), None) => {
                format!("{waiters} waiters in this process take longer than {left:.1?}")
            }
        }
    }
}

/// The store could not be asked, or its answer is unknown.
#[derive(Debug, Clone)]
pub struct UnavailableError {
    key: Key,
    retryable: bool,
    source: Arc<dyn StdError + Send + Sync>,
}

impl UnavailableError {
    pub(crate) fn new(key: Key, fault: Fault) -> Self {
        Self { key, retryable: fault.is_transient(), source: Arc::new(fault) }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Whether the fault may pass by itself: false for a refused password, a missing right or a
    /// foreign value at the key.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }
}

impl fmt::Display for UnavailableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock `{}` unavailable: {}", self.key, self.source)
    }
}

impl StdError for UnavailableError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}

/// Why a hold was not [downgraded](crate::LockGuard::downgrade).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DowngradeError {
    /// It was lost before that.
    #[error(transparent)]
    Lost(#[from] LostError),
    /// The store cannot share a key, see [`Capabilities::shared`](crate::backend::Capabilities); nothing was
    /// sent.
    #[error("lock `{key}` cannot be shared: its store does not promise it")]
    Unsupported {
        /// The key.
        key: Key,
    },
    /// It is a permit, of which there is no lesser kind; nothing was sent.
    #[error("lock `{key}` is held by a permit, which cannot be shared")]
    Permit {
        /// The key.
        key: Key,
    },
    /// Other guards re-entered the hold, and count on having the key alone; nothing was sent.
    #[error("lock `{key}` was re-entered, and those who did count on having it alone")]
    Reentered {
        /// The key.
        key: Key,
    },
}

/// Fewer replicas than asked for acknowledged a grant in time. So the grant does not count, or does
/// not count for those who would re-enter it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("lock `{key}` not {}", self.what())]
pub struct NotReplicatedError {
    pub(crate) key: Key,
    #[source]
    pub(crate) not_replicated: NotReplicated,
    pub(crate) is_reentry: bool,
}

impl NotReplicatedError {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// How many replicas were to acknowledge the grant.
    #[must_use]
    pub fn wanted(&self) -> u32 {
        self.not_replicated.wanted
    }

    /// How many did. For a re-entry it is the number that those who made the hold asked for, as no
    /// more are known to have acknowledged it.
    #[must_use]
    pub fn acknowledged(&self) -> u32 {
        self.not_replicated.acknowledged
    }

    /// How long they had; zero for a re-entry into a hold that was made without `replicas`.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.not_replicated.timeout
    }

    /// Whether it was called under a hold of the key that was granted with fewer replicas. The hold
    /// goes on and nothing was sent. Trying again is of no use: ask for the replicas where the hold
    /// is made.
    #[must_use]
    pub fn is_reentry(&self) -> bool {
        self.is_reentry
    }

    fn what(&self) -> String {
        if !self.is_reentry {
            return format!("acquired: {}", self.not_replicated);
        }
        let NotReplicated { wanted, acknowledged, .. } = self.not_replicated;
        format!(
            "re-entered: {acknowledged} of {wanted} replicas acknowledged the hold that this is \
             called under; ask for them where it is made"
        )
    }
}

/// The client was shut down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("lock `{key}` not acquired: the client is shut down")]
pub struct ClosedError {
    pub(crate) key: Key,
}

impl ClosedError {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }
}

/// Why a release could not say that the lock was given back by it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lock had been lost before: somebody else may have held it meanwhile.
    #[error("lock `{key}` was not held any more under token {token}")]
    NotHeld {
        /// The key.
        key: Key,
        /// The token of the guard.
        token: FencingToken,
    },
    /// The store did not answer in time, so whether the lock is free already is not known. The
    /// release is tried again in the background until the lease has ended.
    #[error("lock `{}` may not be released yet: {}", .0.key(), .0)]
    Unavailable(#[source] UnavailableError),
}

impl ReleaseError {
    /// Whether the lock had been lost before.
    #[must_use]
    pub fn is_not_held(&self) -> bool {
        matches!(self, Self::NotHeld { .. })
    }

    /// Whether the outcome is not known.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::NotHeld { key, .. } => key,
            Self::Unavailable(error) => error.key(),
        }
    }
}

/// A hold was over before it was released. Another holder with a greater token may be at work:
/// stop, and let the resource refuse what was written under the old token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("lock `{key}` lost under token {token}: {}", self.words())]
pub struct LostError {
    pub(crate) key: Key,
    pub(crate) token: FencingToken,
    pub(crate) reason: LossReason,
}

impl LostError {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The token of the hold that is over.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// What ended it.
    #[must_use]
    pub fn reason(&self) -> LossReason {
        self.reason
    }

    fn words(&self) -> &'static str {
        match self.reason {
            LossReason::Expired => "the lease ended without a renewal",
            LossReason::Taken => "the store does not know the claim any more",
            LossReason::HoldLimit => "held longer than the hold limit",
            LossReason::Shutdown => "the client was shut down",
        }
    }
}

/// Why [`LockBuilder::run`](crate::LockBuilder::run) has no result of the work.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The work never began.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lock was lost, so the work was stopped at its next await.
    #[error(transparent)]
    Lost(#[from] LostError),
}

/// Why a wish of an operator was not done: to inspect a key, to ask its holder to give it up, or to
/// take it away.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// The key is empty or too long.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store has no way to do it; nothing was sent.
    #[error("lock `{key}`: its store does not promise `{capability}`")]
    Unsupported {
        /// The key.
        key: Key,
        /// The name of the field of [`Capabilities`](crate::backend::Capabilities) that does not hold.
        capability: &'static str,
    },
    /// The store could not be asked, or its answer is unknown.
    #[error(transparent)]
    Unavailable(#[from] UnavailableError),
}

impl OperatorError {
    /// Whether the store has no way to do it.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Unsupported { .. })
    }

    /// Whether the store was out of reach.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// The key, where the input was good enough to make one.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Key(_) => None,
            Self::Unsupported { key, .. } => Some(key),
            Self::Unavailable(error) => Some(error.key()),
        }
    }
}

/// A global client was installed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a global lock client is installed already")]
pub struct AlreadyInstalled;
