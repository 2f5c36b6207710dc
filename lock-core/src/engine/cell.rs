//! One busy key: its cohort behind a short mutex, and what a guard does with it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};
use tokio::time::error::Elapsed;
use tracing::Span;

use super::leave::RELEASE_WITHIN;
use super::scope::{Door, Inside, Turn};
use super::shared::{Shared, lock};
use super::{clock, driver, observe};
use crate::backend::{Fault, FaultKind};
use crate::busy::{BusyHold, BusyKey};
use crate::error::{LostCause, LostError, ReleaseError, UnavailableError};
use crate::key::Key;
use crate::proto::{Ask, Cohort, Effects, Entry, ReleaseAnswer};
use crate::token::FencingToken;

pub(super) type ReleaseReply = oneshot::Sender<ReleaseAnswer>;
pub(super) type KeyCohort = Cohort<Waker, ReleaseReply>;
pub(super) type KeyEffects = Effects<Waker, ReleaseReply>;

/// See the module.
#[derive(Debug)]
pub(crate) struct KeyCell {
    key: Key,
    cohort: Mutex<KeyCohort>,
    /// Makes the driver look again.
    pub(super) poke: Notify,
    /// Where the driver runs.
    runtime: Mutex<Option<tokio::runtime::Id>>,
    pub(super) shared: Arc<Shared>,
}

impl KeyCell {
    pub(super) fn new(key: Key, shared: Arc<Shared>) -> Self {
        Self {
            key,
            cohort: Mutex::new(Cohort::new()),
            poke: Notify::new(),
            runtime: Mutex::new(None),
            shared,
        }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Never held across an await, a wake or a call into foreign code.
    pub(super) fn cohort(&self) -> MutexGuard<'_, KeyCohort> {
        lock(&self.cohort)
    }

    /// Finds or makes the cell of `key`, and enters it.
    pub(super) fn enter(
        shared: &Arc<Shared>,
        key: &Key,
        ask: Ask,
        now: Instant,
        cx: &Context<'_>,
    ) -> (Arc<Self>, Entry) {
        loop {
            let make = || Arc::new(Self::new(key.clone(), shared.clone()));
            let cell = shared.registry.cell(key, make);
            let mut fx = Effects::none();
            let max = shared.waiters_per_key_max;
            let waker = || cx.waker().clone();
            let mut cohort = cell.cohort();
            let entry = cohort.enter(ask, max, now, waker, &mut fx);
            drop(cohort);
            if shared.is_closed() {
                // A cell that was made after `close` had closed all that it found.
                cell.cohort().close(&mut fx);
            }
            cell.apply(fx);
            if !matches!(entry, Entry::Seated(_) | Entry::Granted(_)) {
                // A cell made for nothing must not stay behind.
                shared.retire(&cell, false);
            }
            if !matches!(entry, Entry::Retired) {
                return (cell, entry);
            }
        }
    }

    /// Does what the cohort left to do outside its mutex.
    pub(super) fn apply(self: &Arc<Self>, fx: KeyEffects) {
        if fx.spawn {
            match self.shared.runtime() {
                Ok(runtime) => {
                    *lock(&self.runtime) = Some(runtime.id());
                    drop(runtime.spawn(driver::drive(self.clone())));
                }
                Err(fault) => self.orphaned(fault),
            }
        }
        if fx.poke {
            self.poke.notify_one();
        }
        if let Some(waker) = fx.wake {
            waker.wake();
        }
        for waker in fx.wake_more {
            waker.wake();
        }
        if let Some((reply, answer)) = fx.reply {
            // The releasing task may be gone; the release is done all the same.
            drop(reply.send(answer));
        }
        observe::count(&self.key, &fx.changes);
    }

    /// Whether the driver lives and dies with the runtime of the caller, so that its timers serve
    /// the caller too.
    pub(super) fn is_driven_here(&self) -> bool {
        let here = tokio::runtime::Handle::try_current().ok().map(|here| here.id());
        here.is_some() && *lock(&self.runtime) == here
    }

    /// What those who watch a service want to know.
    pub(super) fn busy(&self) -> BusyKey {
        let now = clock::now();
        let cohort = self.cohort();
        let hold = cohort.hold(now).map(|(token, since, until)| BusyHold {
            token: FencingToken::new(token),
            held_for: now.saturating_duration_since(since),
            lease_left: until.saturating_duration_since(now),
        });
        let waiters = cohort.waiters();
        let (refused, (holds, waits)) = (cohort.counters().refused, cohort.of_late());
        BusyKey { key: self.key.clone(), hold, waiters, refused, holds, waits }
    }

    /// Nobody drives this key any more.
    pub(super) fn orphaned(self: &Arc<Self>, why: Fault) {
        let mut fx = Effects::none();
        self.cohort().orphan(why, clock::now(), &mut fx);
        self.apply(fx);
        self.shared.retire(self, false);
    }

    pub(super) fn why_lost(&self, token: u64, cause: LostCause) -> LostError {
        LostError { key: self.key.clone(), token: FencingToken::new(token), cause }
    }
}

/// A hold on a key; dropping it gives the lock up in the background.
#[derive(Debug)]
pub(crate) struct Hold {
    cell: Arc<KeyCell>,
    token: u64,
    armed: bool,
    span: Span,
    /// Who of those that are called under this guard has re-entered its hold.
    turn: Turn,
    /// Where it re-entered the hold of a guard that it was called under. Given up after the hold,
    /// so that the next of its siblings finds this one gone.
    inside: Option<Arc<Inside>>,
}

impl Hold {
    pub(super) fn new(cell: Arc<KeyCell>, token: u64) -> Self {
        let span = observe::hold(&cell.key, token);
        Self { cell, token, armed: true, span, turn: Turn::default(), inside: None }
    }

    pub(super) fn reentered(
        cell: Arc<KeyCell>,
        token: u64,
        span: Span,
        inside: Arc<Inside>,
    ) -> Self {
        Self { cell, token, armed: true, span, turn: Turn::default(), inside: Some(inside) }
    }

    /// The way back into this hold, for what is called under it.
    pub(super) fn door(&self) -> Door {
        Door::new(self, &self.turn, &self.span, self.inside.as_ref())
    }

    pub(crate) fn cell(&self) -> &Arc<KeyCell> {
        &self.cell
    }

    pub(crate) fn token(&self) -> FencingToken {
        FencingToken::new(self.token)
    }

    /// Gives the lock up, and waits for the answer.
    pub(crate) async fn release(mut self) -> Result<(), ReleaseError> {
        let (mut fx, mut later) = (Effects::none(), None);
        let reply = || {
            let (reply, answer) = oneshot::channel();
            later = Some(answer);
            Some(reply)
        };
        // From here on the drop has nothing left to do: the release is on its way.
        self.armed = false;
        self.turn.close();
        let at_once = self.cell.cohort().release(self.token, reply, clock::now(), &mut fx);
        observe::gave_up(&self.span, &fx.changes);
        self.cell.apply(fx);
        self.inside = None;
        let unknown = |fault| {
            Err(ReleaseError::Unavailable(UnavailableError::new(self.cell.key.clone(), fault)))
        };
        let answer = match (at_once, later) {
            (Some(answer), _) => Ok(answer),
            (None, Some(later)) => self.in_time(later).await,
            (None, None) => Ok(ReleaseAnswer::NotHeld),
        };
        match answer {
            Err(_) => unknown(Fault::new(
                FaultKind::Transient,
                format!("the store did not answer within {RELEASE_WITHIN:?}"),
            )),
            Ok(ReleaseAnswer::Released) => Ok(()),
            Ok(ReleaseAnswer::Unknown(fault)) => unknown(fault),
            Ok(ReleaseAnswer::NotHeld) => Err(ReleaseError::NotHeld {
                key: self.cell.key.clone(),
                token: FencingToken::new(self.token),
            }),
        }
    }

    /// The answer to a release, if it comes in time: a request that hangs, be it the withdrawal or
    /// one before it, must not hang the caller too.
    async fn in_time(
        &self,
        answer: oneshot::Receiver<ReleaseAnswer>,
    ) -> Result<ReleaseAnswer, Elapsed> {
        let Ok(runtime) = self.cell.shared.runtime() else { return Ok(ReleaseAnswer::NotHeld) };
        let answer = {
            // The caller may be on another executor.
            let _timers = runtime.enter();
            tokio::time::timeout(RELEASE_WITHIN, answer)
        };
        // Without an answer the driver is gone with its runtime, and the hold with it.
        Ok(answer.await?.unwrap_or(ReleaseAnswer::NotHeld))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.armed {
            self.turn.close();
            let mut fx = Effects::none();
            self.cell.cohort().release(self.token, || None, clock::now(), &mut fx);
            observe::gave_up(&self.span, &fx.changes);
            self.cell.apply(fx);
        }
    }
}

/// The state of a hold, for its guard and for views of it.
#[derive(Debug, Clone)]
pub(crate) struct HoldView {
    pub(super) cell: Arc<KeyCell>,
    pub(super) token: u64,
}

impl HoldView {
    pub(crate) fn of(hold: &Hold) -> Self {
        Self { cell: hold.cell.clone(), token: hold.token }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.cell.key
    }

    pub(crate) fn token(&self) -> FencingToken {
        FencingToken::new(self.token)
    }

    pub(crate) fn left(&self) -> Duration {
        let now = clock::now();
        let until = self.cell.cohort().held_until(self.token, now);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Why the hold is over; `None` while it is good, and after its release.
    pub(crate) fn lost_now(&self) -> Option<LostError> {
        let mut fx = Effects::none();
        let cause = self.cell.cohort().lost(self.token, clock::now(), &mut fx);
        self.cell.apply(fx);
        cause.map(|cause| self.cell.why_lost(self.token, cause))
    }

    /// Whether somebody asked the holder to give the key up; false once the hold is over.
    pub(crate) fn is_revoke_requested(&self) -> bool {
        self.cell.cohort().is_revoke_requested(self.token)
    }
}
