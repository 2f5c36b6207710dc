//! A leader's term.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

use super::super::hold::{LockGuard, LockHandle};
use crate::error::ReleaseError;

/// A term of office: whoever has it leads, until it is [lost](LockHandle::lost),
/// [resigned](Self::resign) or dropped, which resigns in the background.
///
/// A leader whose process is stopped, or that the store does not answer, is told that its term is over
/// no later than its lease ends by its own clock, and so before the next one leads. One that is cut off
/// together with a master that was replaced leads on until the cut is over. What it
/// still has under way then, a resource refuses by the [`token`](LockHandle::token): each term has
/// a greater one than all before.
///
/// It derefs to a [`LockHandle`], which tells the rest: whether
/// [renewals fail](LockHandle::renewal_failing), and whether an operator asks the leader to resign
/// ([`revoke_requested`](LockHandle::revoke_requested)).
#[must_use = "a term that is not kept ends at once"]
pub struct Term {
    guard: LockGuard,
    value: Arc<str>,
}

impl Term {
    pub(super) fn new(guard: LockGuard, value: Arc<str>) -> Self {
        Self { guard, value }
    }

    /// The value that those who follow are shown.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether the term goes on, by this process's own clock. Reads the clock each time.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.guard.is_held()
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

impl Deref for Term {
    type Target = LockHandle;

    fn deref(&self) -> &LockHandle {
        &self.guard
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
