//! What a leader has in hand.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::super::{LockGuard, LockHandle, Lost, RenewalFailing, RevokeRequested};
use crate::error::ReleaseError;
use crate::key::Key;
use crate::token::FencingToken;

/// A term of office: whoever has it leads, until it is [lost](Self::lost), [resigned](Self::resign)
/// or dropped, which resigns in the background.
///
/// A leader whose process is stopped, or that the store cannot be reached by, is told that its term
/// is over no later than its lease ends by its own clock, and so before the next one leads. What it
/// still has under way then, a resource refuses by the [`token`](Self::token): each term has a
/// greater one than all before.
#[must_use = "a term that is not kept ends at once"]
pub struct Term {
    guard: LockGuard,
    value: Arc<str>,
}

impl Term {
    pub(super) fn new(guard: LockGuard, value: Arc<str>) -> Self {
        Self { guard, value }
    }

    /// The election.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.guard.key()
    }

    /// The fencing token of this term. Send it with every write.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.guard.token()
    }

    /// What those who follow are shown.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether the term goes on, by this process's own clock. Reads the clock each time.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.guard.is_held()
    }

    /// How long it goes on without a further renewal, see
    /// [`LockGuard::lease_left`](crate::LockGuard::lease_left).
    #[must_use]
    pub fn lease_left(&self) -> Duration {
        self.guard.lease_left()
    }

    /// Resolves when the term is over without a resignation: step down then.
    pub fn lost(&self) -> Lost {
        self.guard.lost()
    }

    /// Resolves when a renewal has failed and the term goes on, see
    /// [`LockGuard::renewal_failing`](crate::LockGuard::renewal_failing).
    pub fn renewal_failing(&self) -> RenewalFailing {
        self.guard.renewal_failing()
    }

    /// Resolves when an operator asks the leader to resign, see
    /// [`LockGuard::revoke_requested`](crate::LockGuard::revoke_requested).
    pub fn revoke_requested(&self) -> RevokeRequested {
        self.guard.revoke_requested()
    }

    /// A view of this term that can be cloned and sent along, and cannot resign.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        self.guard.handle()
    }

    /// Ends the term, and waits for the answer. The next candidate leads.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::NotHeld`] when the term had been lost before;
    /// [`ReleaseError::Unavailable`] when the store did not answer within 2 s. The resignation is
    /// tried again in the background then, until the store answers or the lease has ended.
    ///
    /// # Cancel safety
    ///
    /// The resignation is under way with the first poll and goes on when this future is dropped;
    /// only the answer is lost.
    pub fn resign(self) -> impl Future<Output = Result<(), ReleaseError>> + Send {
        self.guard.release()
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term")
            .field("key", self.key())
            .field("token", &self.token())
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}
