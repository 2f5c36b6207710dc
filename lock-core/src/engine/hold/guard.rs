//! A held lock in hand.

use std::fmt;
use std::future::Future;
use std::ops::Deref;

use super::downgrade::Downgrade;
use super::handle::LockHandle;
use super::held::Hold;
use super::scope::{LockScope, Scoped};
use crate::error::ReleaseError;

/// A held lock. Dropping it gives the lock up in the background; [`release`](Self::release) waits
/// for the answer.
///
/// A hold can be lost before its release: the process was stopped past its lease, the store lost
/// its data, the hold limit was reached. [`lost`](LockHandle::lost) tells no later than the lease end by
/// this process's own clock, even when the network swallows everything. A process that was blocked
/// or suspended is told when it goes on. The [`token`](LockHandle::token) lets a resource refuse
/// what a stale holder still writes.
///
/// All that can be asked of a hold is asked of its [`LockHandle`], which a guard derefs to. A clone
/// of a guard is one of that: it keeps nothing locked.
#[doc(alias = "mutex")]
#[must_use = "a lock that is not kept is given up at once"]
pub struct LockGuard {
    hold: Hold,
}

impl LockGuard {
    pub(crate) fn new(hold: Hold) -> Self {
        Self { hold }
    }

    /// A view of this hold that can be cloned and sent along, and cannot release it.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        self.hold.handle().clone()
    }

    /// Shares the key from now on with all others who do, without giving it up in between: those
    /// who wait to share it are let in, up to the first who wants it alone. There is no way back
    /// but a new acquire. Does nothing for a guard that shares it already.
    ///
    /// The guard must not be used to write from the first poll on: others may read as soon as the
    /// store was asked. A store that does not answer is asked again until the hold is lost.
    ///
    /// # Errors
    ///
    /// [`DowngradeError::Lost`](crate::error::DowngradeError::Lost) when the hold is lost before it is shared. The others are told
    /// before anything is sent: the store has no readers, the guard is a permit, or it was
    /// [re-entered](LockScope) by one that is still there.
    ///
    /// # Cancel safety
    ///
    /// See [`Downgrade`].
    pub fn downgrade(&self) -> Downgrade {
        Downgrade::new(self.hold.handle().view.clone())
    }

    /// Runs a future under this guard. An acquire of the key inside it re-enters the hold, and so
    /// does not wait for its own caller. See [`LockScope`].
    ///
    /// Two that re-enter one guard run one after the other. The future does not keep the lock: once
    /// the guard is gone, it waits like any other.
    ///
    /// # Cancel safety
    ///
    /// As that of the future.
    pub fn scope<F: Future>(&self, future: F) -> Scoped<F> {
        self.scope_in(LockScope::current()).run(future)
    }

    /// The scope of what is called under this guard, inside `outer`.
    pub(crate) fn scope_in(&self, outer: Option<LockScope>) -> LockScope {
        LockScope::under(&self.hold, outer)
    }

    /// Gives the lock up: hands it to the next waiter, or frees it at the store, and waits for
    /// the answer. Of several guards that re-entered one hold, the last one gives it up.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::NotHeld`] when the hold had been lost before, so others may have held the
    /// lock meanwhile; [`ReleaseError::Unavailable`] when the store did not answer within 2 s. The
    /// release then goes on in the background until the lease has ended.
    ///
    /// # Cancel safety
    ///
    /// The release is under way with the first poll and goes on when this future is dropped; only
    /// the answer is lost. Dropped before its first poll, it drops the guard, which releases too.
    pub fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send {
        // Not `async`, which would carry the future of the hold inside of another.
        self.hold.release()
    }
}

impl Deref for LockGuard {
    type Target = LockHandle;

    #[inline]
    fn deref(&self) -> &LockHandle {
        self.hold.handle()
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("key", self.key())
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}
