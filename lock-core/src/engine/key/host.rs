//! A key, as its driver sees it.

use std::future::Future;
use std::sync::{Arc, MutexGuard};
use std::task::Waker;
use std::time::Instant;

use futures_util::task::ArcWake;
use tokio::sync::oneshot;

use crate::backend::{ClaimId, DynClaim, Terms};
use crate::key::Key;
use crate::proto::{Cohort, Effects, ReleaseAnswer};

pub(super) type ReleaseReply = oneshot::Sender<ReleaseAnswer>;
pub(in crate::engine) type KeyCohort = Cohort<Waker, ReleaseReply>;
pub(in crate::engine) type KeyEffects = Effects<Waker, ReleaseReply>;

/// The key that a driver is driven for. It decides by its cohort, and is told what came of it; to
/// wake it is to have the driver polled.
pub(super) trait Host: ArcWake + 'static {
    fn key(&self) -> &Key;

    /// Never held across an await, a wake or a call into foreign code.
    fn cohort(&self) -> MutexGuard<'_, KeyCohort>;

    /// Whether the conductor looks after it.
    fn is_grown_up(&self) -> bool;

    /// A new claim.
    fn claim(&self, id: ClaimId, terms: Terms) -> Box<dyn DynClaim>;

    /// Asks the store who holds the key, for the cohort, and does not wait for it.
    fn asks_for_rival(self: &Arc<Self>, now: Instant);

    /// Does what the cohort left to do outside its mutex.
    fn apply_driven(self: &Arc<Self>, fx: KeyEffects);

    /// Whether the conductor has to go on, as only it may send what comes next; it is told so.
    fn is_handed_over(self: &Arc<Self>) -> bool;

    /// The driver has nothing to do until something wakes it, or until then.
    fn rests(self: &Arc<Self>, now: Instant, until: Option<Instant>);

    /// Nothing is left to do; whether the key is off the register by this.
    fn retires(self: &Arc<Self>) -> bool;

    /// Runs what no caller waits for. The client counts it among what leaves.
    fn in_background(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static);
}
