//! A view of a held lock.

use std::fmt;
use std::time::Duration;

use super::failing::RenewalFailing;
use super::lost::Lost;
use super::revoke::RevokeRequested;
use super::view::View;
use crate::error::LostError;
use crate::ground::clock;
use crate::key::Key;
use crate::proto::Effects;
use crate::token::FencingToken;

/// A view of a held lock: it tells the key, the token and whether the hold is still good, and
/// cannot release it. It does not keep the lock either.
///
/// It can be cloned and sent along. A [`LockGuard`](crate::LockGuard) and a [`Term`](crate::Term)
/// deref to it, so all that it tells can be asked of them.
#[derive(Clone)]
pub struct LockHandle {
    pub(super) view: View,
}

impl LockHandle {
    /// The key that is locked.
    #[must_use]
    pub fn key(&self) -> &Key {
        self.view.key()
    }

    /// The fencing token of the hold. Send it with every write.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.view.token()
    }

    /// Whether the hold is still good by this process's own clock; false after its release. Reads
    /// the clock each time.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.lease_left().is_zero()
    }

    /// How long the hold is good without a further renewal; zero once it is over. Ends a safety
    /// margin (1 % of the lease and 2 ms) before the lease does at the store.
    #[must_use]
    pub fn lease_left(&self) -> Duration {
        let now = clock::now();
        let until = self.view.cell.cohort().held_until(self.view.token, now);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Resolves when the hold is over without a release.
    pub fn lost(&self) -> Lost {
        Lost::new(self.view.clone())
    }

    /// Why the hold is over; `None` while it is good, and after its release.
    #[must_use]
    pub fn why_lost(&self) -> Option<LostError> {
        let mut fx = Effects::none();
        let cause = self.view.cell.cohort().lost(self.view.token, clock::now(), &mut fx);
        self.view.cell.settle(fx);
        cause.map(|cause| self.view.cell.why_lost(self.view.token, cause))
    }

    /// Resolves when a renewal has failed and the hold is still good, with the reason and the time
    /// that is left. So its holder can wind up before it is lost. Renewals are made at a third of
    /// the lease, and a store has a sixth of the lease to answer (50 ms to 2 s). So about half of
    /// the lease is left then. The hold may go on: a later try may succeed, and
    /// [`now`](RenewalFailing::now) tells whether one has.
    ///
    /// It stays pending once the hold is over.
    pub fn renewal_failing(&self) -> RenewalFailing {
        RenewalFailing::new(self.view.clone())
    }

    /// Resolves when somebody asks for the key with
    /// [`LockClient::request_revoke`](crate::LockClient::request_revoke), or in the way of another
    /// library that the store serves too. Only where
    /// [`Capabilities::revocation`](crate::backend::Capabilities) holds. It stays pending once the
    /// hold is over.
    ///
    /// The hold stays good: whether and when to release it is up to its holder. Once it is
    /// released, the key goes back to the store, whoever waits in this process.
    pub fn revoke_requested(&self) -> RevokeRequested {
        RevokeRequested::new(self.view.clone())
    }

    /// Whether somebody asked for the key, see [`revoke_requested`](Self::revoke_requested);
    /// false once the hold is over.
    #[must_use]
    pub fn is_revoke_requested(&self) -> bool {
        self.view.cell.cohort().is_revoke_requested(self.view.token)
    }

    /// The number of a permit, from 0: nobody else who holds one of the key has the same. 0 in
    /// other modes, and once the guard is gone.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.view.cell.cohort().slot_of(self.view.token)
    }
}

impl fmt::Debug for LockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockHandle")
            .field("key", self.key())
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}
