//! The errors of the lock, one type per operation. Nothing is ever mixed up: a bound that was hit,
//! a full line, a store out of reach, bad input and a closed client are different variants.
//!
//! An error says what it is by its text, or leaves it to its [`source`](std::error::Error::source):
//! nothing is said twice. So a text is whole for an operator, and who prints the sources as well
//! reads each sentence once. A [`Fault`] keeps the typed error that it came of as its
//! [`cause`](Fault::cause).

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use crate::backend::ConnectError;
use crate::backend::{Fault, NotReplicated};
use crate::key::Key;
pub use crate::key::KeyError;
use crate::mode::Mode;
pub use crate::proto::{BlockedBy, LossReason};
pub use crate::rejection::Rejection;
use crate::token::FencingToken;
use crate::view::Holder;

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
#[error("lock `{key}` not acquired in {waited:?}, in {tries} tries of {wait:?}: {blocked_by}{}", self.held_by())]
pub struct TimeoutError {
    pub(crate) key: Key,
    pub(crate) wait: Duration,
    pub(crate) waited: Duration,
    pub(crate) tries: u32,
    pub(crate) blocked_by: BlockedBy,
    pub(crate) holder: Option<Arc<Holder>>,
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

    /// The time from the first poll of the wait to this error.
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

    /// The obstacle at the end of the wait.
    #[must_use]
    pub fn blocked_by(&self) -> &BlockedBy {
        &self.blocked_by
    }

    /// The holder, or one of several, as the store saw it at most 2 s ago. It says who, what for and for how
    /// long, as far as the store knows. `None` where this very client holds the key, see
    /// [`blocked_by`](Self::blocked_by).
    ///
    /// The store is asked half a second before the end of a wait, by a client at most twice a second for
    /// a key, and for 8 keys at once. So it is also `None` where it had not answered by then, and for
    /// waits of less than half a second. [`LockClient::inspect`](crate::LockClient::inspect) asks anew.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_deref()
    }

    fn held_by(&self) -> String {
        let Some(holder) = &self.holder else { return String::new() };
        let who = holder.about.as_ref().unwrap_or(&holder.claim);
        let is = if holder.mode == Mode::Exclusive { "the holder is" } else { "one holder is" };
        let since = holder.held_for.map(|time| match time.as_secs() {
            0 => " (held for less than 1 s)".to_owned(),
            seconds => format!(" (held for {seconds} s)"),
        });
        format!("; {is} {who}{}", since.unwrap_or_default())
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

/// The bound that a waiter would have gone beyond.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OverloadBound {
    /// `waiters_per_key_max` of the client.
    Waiters(usize),
    /// [`LockBuilder::waiters_max`](crate::LockBuilder::waiters_max).
    OwnWaiters(usize),
    /// The rest of its budget.
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

    /// Whether it was the bound of [`LockBuilder::waiters_max`](crate::LockBuilder::waiters_max), and not
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
    fault: Arc<Fault>,
}

impl UnavailableError {
    pub(crate) fn new(key: Key, fault: Fault) -> Self {
        Self { key, fault: Arc::new(fault) }
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
        self.fault.is_transient()
    }

    /// The trouble of the store, or of the way there.
    #[must_use]
    pub fn fault(&self) -> &Fault {
        &self.fault
    }
}

impl fmt::Display for UnavailableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock `{}` unavailable: {}", self.key, self.fault)
    }
}

impl StdError for UnavailableError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.fault.source()
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
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lock had been lost before: somebody else may have held it meanwhile.
    NotHeld {
        /// The key.
        key: Key,
        /// The token of the guard.
        token: FencingToken,
    },
    /// The store did not answer in time, so whether the lock is free already is not known. The
    /// release is tried again in the background until the lease has ended.
    Unavailable(UnavailableError),
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHeld { key, token } => {
                write!(f, "lock `{key}` was not held any more under token {token}")
            }
            Self::Unavailable(error) => {
                write!(f, "lock `{}` may not be released yet: {}", error.key, error.fault)
            }
        }
    }
}

impl StdError for ReleaseError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::NotHeld { .. } => None,
            Self::Unavailable(error) => error.source(),
        }
    }
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

    /// The cause that ended it.
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

/// Why a wish of an operator about a key was not done: to inspect it, to ask its holder to give it up, or to
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

/// Why the busy keys of a store were not listed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ListError {
    /// The store has no way to do it, as [`Capabilities::listing`](crate::backend::Capabilities) says;
    /// nothing was sent.
    Unsupported,
    /// The store could not be asked, or its answer is unknown.
    Unavailable(Arc<Fault>),
}

impl ListError {
    /// Whether the store has no way to do it.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Self::Unsupported)
    }

    /// Whether the store was out of reach.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported => f.write_str("the store does not promise `listing` of its keys"),
            Self::Unavailable(fault) => write!(f, "busy keys not listed: {fault}"),
        }
    }
}

impl StdError for ListError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Unsupported => None,
            Self::Unavailable(fault) => fault.source(),
        }
    }
}

/// A global client was installed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a global lock client is installed already")]
pub struct AlreadyInstalled;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::FaultKind;

    /// The texts of an error and of all its sources, from the outside in.
    fn said(error: &(dyn StdError + 'static)) -> Vec<String> {
        let (mut said, mut next) = (Vec::new(), Some(error));
        while let Some(error) = next {
            said.push(error.to_string());
            next = error.source();
        }
        said
    }

    /// Nothing is said twice, and the first text has `whole` in it, which is for operators.
    fn says_each_once(error: impl StdError + 'static, whole: &str, sources: usize) {
        let said = said(&error);
        for (index, text) in said.iter().enumerate() {
            let again = said[index + 1..].iter().find(|later| text.contains(later.as_str()));
            assert!(again.is_none(), "{again:?} is said again by {said:?}");
        }
        assert_eq!(said.len(), sources + 1, "{said:?}");
        assert!(said[0].contains(whole), "{said:?}");
    }

    fn refused() -> std::io::Error {
        std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused")
    }

    /// A fault whose text leaves the cause to the source, and one whose text has it.
    fn faults() -> [(Fault, usize); 2] {
        let silent = Fault::new(FaultKind::Transient, "the store is out of reach");
        let whole = "the store is out of reach: connection refused";
        let whole = Fault::new(FaultKind::Transient, whole);
        [(silent.with_source(refused()), 1), (whole.with_source(refused()), 0)]
    }

    #[test]
    fn no_error_says_by_its_text_what_a_source_says() {
        let key = || Key::new("k").unwrap();
        let token = FencingToken::new(7);
        for (fault, sources) in faults() {
            let out = "out of reach";
            let unavailable = || UnavailableError::new(key(), fault.clone());
            assert!(fault.cause().is_some_and(|cause| cause.is::<std::io::Error>()));
            says_each_once(fault.clone(), out, sources);
            says_each_once(unavailable(), out, sources);
            says_each_once(AcquireError::from(unavailable()), out, sources);
            says_each_once(RunError::from(AcquireError::from(unavailable())), out, sources);
            says_each_once(ReleaseError::Unavailable(unavailable()), out, sources);
            says_each_once(OperatorError::from(unavailable()), out, sources);
            says_each_once(ListError::Unavailable(fault.clone().into()), out, sources);
            says_each_once(ConnectError::Store(fault.clone()), out, sources);
        }
        let lost = || LostError { key: key(), token, reason: LossReason::Expired };
        says_each_once(lost(), "lost under token", 0);
        says_each_once(AcquireError::from(lost()), "lost under token", 0);
        says_each_once(RunError::from(lost()), "lost under token", 0);
        says_each_once(DowngradeError::from(lost()), "lost under token", 0);
        says_each_once(DowngradeError::Permit { key: key() }, "permit", 0);
        let bad = || Key::new("").unwrap_err();
        says_each_once(bad(), "empty", 0);
        says_each_once(AcquireError::from(bad()), "empty", 0);
        says_each_once(OperatorError::from(bad()), "empty", 0);
        let not_replicated =
            NotReplicated { wanted: 2, acknowledged: 1, timeout: Duration::from_millis(5) };
        for is_reentry in [false, true] {
            let error = NotReplicatedError { key: key(), not_replicated, is_reentry };
            says_each_once(AcquireError::from(error), "1 of 2", 0);
        }
        let blocked_by = BlockedBy::ThisClient { token };
        let (wait, estimated_wait) = (Duration::ZERO, None);
        let timeout = || {
            let blocked_by = blocked_by.clone();
            let (waited, tries, holder) = (wait, 1, None);
            TimeoutError { key: key(), wait, waited, tries, blocked_by, holder, estimated_wait }
        };
        says_each_once(AcquireError::from(timeout()), "not acquired", 0);
        let held_by = |holder| TimeoutError { holder: Some(Arc::new(holder)), ..timeout() };
        let holder = Holder::new("ab:1".into(), None, None);
        says_each_once(held_by(holder.clone()), "; the holder is ab:1", 0);
        let reader = holder.with_mode(Mode::Shared).with_about("checkout@web-3");
        let short = reader.clone().with_held_for(Duration::from_millis(999));
        let long = reader.clone().with_held_for(Duration::from_millis(12_345));
        for (holder, end) in
            [(reader, ""), (short, " (held for less than 1 s)"), (long, " (held for 12 s)")]
        {
            let text = format!("; one holder is checkout@web-3{end}");
            assert!(held_by(holder.clone()).to_string().ends_with(&text), "{text}");
            says_each_once(held_by(holder), &text, 0);
        }
        let bound = OverloadBound::Waiters(1);
        let full = OverloadedError { key: key(), waiters: 1, bound, estimated_wait };
        says_each_once(AcquireError::from(full), "overloaded", 0);
        says_each_once(AcquireError::from(ClosedError { key: key() }), "shut down", 0);
        says_each_once(ReleaseError::NotHeld { key: key(), token }, "not held", 0);
        says_each_once(AlreadyInstalled, "installed", 0);
    }

    #[cfg(feature = "idempotency")]
    #[test]
    fn no_error_of_a_record_says_by_its_text_what_a_source_says() {
        use crate::idempotency::{BeginError, CompleteError, IdempotencyError, RecordId};

        let id = RecordId::from_bytes([7; 32]);
        for (fault, sources) in faults() {
            let out = "out of reach";
            let records = BeginError::Records { id, fault: fault.clone() };
            let unavailable = UnavailableError::new(Key::new("k").unwrap(), fault.clone());
            let complete = || CompleteError::Unavailable { id, fault: fault.clone() };
            says_each_once(records, out, sources);
            says_each_once(BeginError::Lock(unavailable.into()), out, sources);
            says_each_once(complete(), out, sources);
            says_each_once(IdempotencyError::Stale(complete()), "too late", sources + 1);
        }
        let token = FencingToken::new(7);
        says_each_once(CompleteError::Stale { id, token }, "in flight", 0);
    }

    #[cfg(feature = "sql")]
    #[test]
    fn no_error_of_a_transaction_says_by_its_text_what_a_source_says() {
        use crate::idempotency::{CommitError, CompleteInError, RecordId};
        use crate::sql::{FenceError, InTransactionError};

        let id = RecordId::from_bytes([7; 32]);
        let source = || sqlx::Error::PoolTimedOut;
        let database = || InTransactionError::Database { source: source() };
        let complete = || CompleteInError::Database { id, source: database() };
        says_each_once(database(), "could not be written", 1);
        says_each_once(complete(), "not completed", 2);
        says_each_once(CommitError::from(complete()), "not completed", 2);
        says_each_once(CommitError::NotCommitted { id, source: source() }, "not committed", 1);
        says_each_once(CommitError::Unknown { id, source: source() }, "not known", 1);
        says_each_once(FenceError::Database { source: source() }, "could not be checked", 1);
        says_each_once(FenceError::from(Key::new("").unwrap_err()), "no name", 1);
    }
}
