//! A held lock in hand.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::{
    Downgrade, Hold, HoldView, LockScope, Lost, RenewalFailing, RenewalFailure, RevokeRequested,
    Scoped,
};
use crate::error::{LostError, ReleaseError};
use crate::key::Key;
use crate::token::FencingToken;

/// A held lock. Dropping it gives the lock up in the background; [`release`](Self::release) waits
/// for the answer.
///
/// A hold can be lost before its release: the process was stopped past its lease, the store lost
/// its data, the hold limit was reached. [`lost`](Self::lost) tells no later than the lease end by
/// this process's own clock, even when the network swallows everything. A process that was blocked
/// or suspended is told when it goes on. The [`token`](Self::token) lets a resource refuse what a
/// stale holder still writes.
#[doc(alias = "mutex")]
#[must_use = "a lock that is not kept is given up at once"]
pub struct LockGuard {
    hold: Hold,
}

impl LockGuard {
    pub(crate) fn new(hold: Hold) -> Self {
        Self { hold }
    }

    /// What is locked.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.hold.cell().key()
    }

    /// The fencing token of this hold. Send it with every write.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.hold.token()
    }

    /// Whether the hold is still good by this process's own clock. Reads the clock each time.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.lease_left().is_zero()
    }

    /// How long the hold is good without a further renewal; zero once it is over. Ends a safety
    /// margin (1 % of the lease and 2 ms) before the lease does at the store.
    #[must_use]
    pub fn lease_left(&self) -> Duration {
        HoldView::of(&self.hold).left()
    }

    /// Resolves when the hold is over without a release.
    pub fn lost(&self) -> Lost {
        Lost::new(HoldView::of(&self.hold))
    }

    /// Resolves when a renewal has failed and the hold is still good, with the reason and the time
    /// that is left. So its holder can wind up before it is lost. Renewals are made at a third of
    /// the lease, and a store has a sixth of the lease to answer (50 ms to 2 s). So about half of
    /// the lease is left then. The hold may go on: a later try may succeed.
    pub fn renewal_failing(&self) -> RenewalFailing {
        RenewalFailing::new(HoldView::of(&self.hold))
    }

    /// Why renewals fail and how long the hold is good without one; `None` unless the last one
    /// failed and the hold is good.
    #[must_use]
    pub fn renewal_failure(&self) -> Option<RenewalFailure> {
        HoldView::of(&self.hold).failing_now()
    }

    /// Resolves when somebody asks for the key with
    /// [`LockClient::request_revoke`](crate::LockClient::request_revoke), or in the way of another
    /// library that the store serves too. Only where
    /// [`Capabilities::revocation`](crate::Capabilities) holds.
    ///
    /// The guard stays good: whether and when to release it is up to its holder. Once it is
    /// released, the key goes back to the store, whoever waits in this process.
    pub fn revoke_requested(&self) -> RevokeRequested {
        RevokeRequested::new(HoldView::of(&self.hold))
    }

    /// Whether somebody asked for the key, see [`revoke_requested`](Self::revoke_requested);
    /// false once the hold is over.
    #[must_use]
    pub fn is_revoke_requested(&self) -> bool {
        HoldView::of(&self.hold).is_revoke_requested()
    }

    /// A view of this hold that can be cloned and sent along, and cannot release it.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        LockHandle { view: HoldView::of(&self.hold) }
    }

    /// Of a permit its number, from 0: nobody else who holds one of the key has the same. 0 in
    /// other modes.
    #[must_use]
    pub fn slot(&self) -> u32 {
        HoldView::of(&self.hold).slot()
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
    /// [`DowngradeError::Lost`](crate::DowngradeError::Lost) when the hold is lost before it is shared. The others are told
    /// before anything is sent: the store has no readers, the guard is a permit, or it was
    /// [re-entered](LockScope) by one that is still there.
    ///
    /// # Cancel safety
    ///
    /// See [`Downgrade`].
    pub fn downgrade(&self) -> Downgrade {
        Downgrade::new(HoldView::of(&self.hold))
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

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("key", self.key())
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}

/// A view of a held lock: it tells the key, the token and whether the hold is still good, and
/// cannot release it. It does not keep the lock either.
#[derive(Debug, Clone)]
pub struct LockHandle {
    view: HoldView,
}

impl LockHandle {
    /// What is locked.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.view.key()
    }

    /// The fencing token of the hold. Send it with every write.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.view.token()
    }

    /// Whether the hold is still good, see [`LockGuard::is_held`]; false after its release.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.view.left().is_zero()
    }

    /// How long the hold is good without a further renewal, see [`LockGuard::lease_left`].
    #[must_use]
    pub fn lease_left(&self) -> Duration {
        self.view.left()
    }

    /// Resolves when the hold is over without a release.
    pub fn lost(&self) -> Lost {
        Lost::new(self.view.clone())
    }

    /// Resolves when a renewal has failed and the hold is still good, see
    /// [`LockGuard::renewal_failing`]; stays pending once the hold is over.
    pub fn renewal_failing(&self) -> RenewalFailing {
        RenewalFailing::new(self.view.clone())
    }

    /// Why renewals fail, see [`LockGuard::renewal_failure`]; `None` once the hold is over.
    #[must_use]
    pub fn renewal_failure(&self) -> Option<RenewalFailure> {
        self.view.failing_now()
    }

    /// Resolves when somebody asks for the key, see [`LockGuard::revoke_requested`]; stays pending
    /// once the hold is over.
    pub fn revoke_requested(&self) -> RevokeRequested {
        RevokeRequested::new(self.view.clone())
    }

    /// Whether somebody asked for the key, see [`LockGuard::revoke_requested`]; false once the
    /// hold is over.
    #[must_use]
    pub fn is_revoke_requested(&self) -> bool {
        self.view.is_revoke_requested()
    }

    /// Why the hold is over; `None` while it is good, and after its release.
    #[must_use]
    pub fn why_lost(&self) -> Option<LostError> {
        self.view.lost_now()
    }
}
