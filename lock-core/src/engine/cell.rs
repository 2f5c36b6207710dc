//! One busy key: its cohort behind a short mutex, and what a guard does with it.

use std::future::{Future as _, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use futures_util::task::{ArcWake, waker_ref};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::coop;

use super::baton::Baton;
use super::conductor::{HELPED_AFTER, LOOK_AFTER};
use super::driver::{self, Driver};
use super::handed::Handed;
use super::shared::Shared;
use super::sweep::NEVER;
use super::{foreign, observe};
use crate::backend::{Fault, FaultKind};
use crate::error::{LossReason, LostError};
use crate::ground::{Plus as _, background, clock, lock};
use crate::key::Key;
use crate::proto::{Ask, Cohort, Effects, Entry, ReleaseAnswer};
use crate::token::FencingToken;
use crate::view::{BusyHold, BusyKey};

pub(super) type ReleaseReply = oneshot::Sender<ReleaseAnswer>;
pub(super) type KeyCohort = Cohort<Waker, ReleaseReply>;
pub(super) type KeyEffects = Effects<Waker, ReleaseReply>;

/// One busy key of a client: its cohort, its driver, and who polls that.
#[derive(Debug)]
pub(crate) struct KeyCell {
    key: Key,
    hash: u64,
    cohort: Mutex<KeyCohort>,
    /// The driver talks to the store; whoever has the baton polls it.
    driver: Mutex<Option<Driver>>,
    /// The cell is that of one candidate in an election, and nobody else's.
    is_candidate: bool,
    baton: Baton,
    /// The waker of who was granted the key while the driver was polled: told when that is over.
    granted: Mutex<Option<Waker>>,
    /// Wakes whoever was granted the key.
    handed: Handed,
    /// The release that waits for the store, the latest.
    releasing: Mutex<Option<Releaser>>,
    /// When it looks here next, in its own nanoseconds. Written under its mutex.
    pub(super) watched: AtomicU64,
    pub(super) shared: Arc<Shared>,
}

/// A caller that waits for the end of its release.
#[derive(Debug)]
pub(super) struct Releaser {
    pub(super) token: u64,
    pub(super) waker: Waker,
    /// When it has waited for long enough.
    pub(super) until: Instant,
}

impl KeyCell {
    pub(super) fn new(key: Key, is_candidate: bool, hash: u64, shared: Arc<Shared>) -> Self {
        Self {
            key,
            is_candidate,
            hash,
            cohort: Mutex::new(Cohort::new()),
            driver: Mutex::new(None),
            baton: Baton::default(),
            granted: Mutex::new(None),
            handed: Handed::default(),
            releasing: Mutex::new(None),
            watched: AtomicU64::new(NEVER),
            shared,
        }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Whether it is that of all who want this key.
    pub(super) fn is_of(&self, key: &Key) -> bool {
        self.key == *key && !self.is_candidate
    }

    pub(super) fn is_candidate(&self) -> bool {
        self.is_candidate
    }

    /// That of the key, in the register of its client.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Never held across an await, a wake or a call into foreign code.
    pub(super) fn cohort(&self) -> MutexGuard<'_, KeyCohort> {
        lock(&self.cohort)
    }

    /// Finds or makes the cell of `key`, and enters it. One who stands for election with a `value`
    /// has one of its own.
    pub(super) fn enter(
        shared: &Arc<Shared>,
        key: &Key,
        value: Option<&Arc<str>>,
        ask: Ask,
        now: Instant,
        cx: &Context<'_>,
    ) -> (Arc<Self>, Entry) {
        loop {
            let is_candidate = value.is_some();
            let make = |hash| Arc::new(Self::new(key.clone(), is_candidate, hash, shared.clone()));
            let cell = match value {
                None => shared.registry.cell(key, make),
                Some(_) => shared.registry.add(key, make),
            };
            let mut fx = Effects::none();
            let waker = || cx.waker().clone();
            let lingers = !ask.linger.is_zero();
            let mut cohort = cell.cohort();
            let entry = cohort.enter(ask, now, waker, &mut fx);
            drop(cohort);
            if shared.is_closed() {
                // A cell that was made after `close` had closed all that it found.
                cell.cohort().close(&mut fx);
            } else if lingers && shared.is_forsaken() {
                cell.cohort().forsake(&mut fx);
            }
            if fx.spawn {
                *lock(&cell.driver) = Some(Driver::new(value));
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

    /// Does what the cohort left to do outside its mutex. The driver is the caller's to poll.
    pub(super) fn apply(self: &Arc<Self>, mut fx: KeyEffects) {
        if let Some(waker) = fx.wake.take() {
            self.handed.wake(waker);
        }
        self.apply_driven(fx);
    }

    /// The same for the driver: whoever was granted the key is told when it was polled, unless it
    /// is the one who polls.
    pub(super) fn apply_driven(self: &Arc<Self>, fx: KeyEffects) {
        if fx.poke || fx.spawn {
            self.baton.wake();
        }
        if let Some(waker) = fx.wake
            && let Some(earlier) = lock(&self.granted).replace(waker)
        {
            foreign::wake(earlier);
        }
        fx.wake_more.into_iter().for_each(foreign::wake);
        if let Some((reply, answer)) = fx.reply {
            // The releasing task may be gone; the release is done all the same.
            foreign::answer(reply, answer);
        }
        observe::count(&self.key, &fx.changes);
    }

    /// Does what is left to do, and has the driver polled: by a caller that waits for the key, or
    /// by the conductor. For who does not wait.
    pub(super) fn settle(self: &Arc<Self>, fx: KeyEffects) {
        self.apply(fx);
        self.nudge();
    }

    /// Has the driver polled, if there is something to poll for and nobody who does. For who was
    /// told to, and goes.
    pub(super) fn nudge(self: &Arc<Self>) {
        if !self.baton.lies() {
            return;
        }
        if self.shared.conductor.is_inline() {
            self.drive(None, None);
        } else {
            self.tell();
        }
    }

    /// Tells somebody that the driver is to be polled. It may be a task that does not come to run,
    /// or goes: so the conductor looks, too. What the conductor has asked for itself, as a renewal,
    /// it does not leave to others.
    fn tell(self: &Arc<Self>) {
        if background::is_here() {
            return self.shared.conductor.take_on(self);
        }
        let releaser = lock(&self.releasing).as_ref().map(|releaser| releaser.waker.clone());
        let Some(waker) = releaser.or_else(|| self.cohort().head_waker()) else {
            return self.shared.conductor.take_on(self);
        };
        foreign::wake(waker);
        // A young key is swept up soon enough.
        if self.is_grown_up() {
            self.shared.conductor.watch(self, clock::now().plus(HELPED_AFTER));
        }
    }

    /// Polls the driver, if there is something to poll for and nobody who does. `own` is the waker
    /// of the caller's task, which need not be told what it is about to see. `now` is what the
    /// caller has just read of the clock.
    pub(super) fn drive(self: &Arc<Self>, own: Option<&Waker>, mut now: Option<Instant>) {
        if !self.baton.take() {
            return;
        }
        // Requests have timers and connections; the caller may be on another executor.
        let is_inside = background::is_here() || clock::runtime().is_some();
        let runtime = if is_inside { None } else { self.shared.conductor.runtime(&self.shared) };
        let _entered = runtime.as_ref().map(Handle::enter);
        let waker = waker_ref(self);
        loop {
            // A young key is swept up soon, and polled by the conductor then. It may grow up meanwhile.
            let is_swept = !self.is_grown_up() && !self.shared.conductor.is_inline();
            let _hands = is_swept.then(background::enter_caller);
            let now = now.take().unwrap_or_else(clock::now);
            let mut slot = lock(&self.driver);
            let polled = slot.as_mut().map(|driver| {
                let mut context = Context::from_waker(&waker);
                // It is no future of the caller, whose budget may be used up: then each channel and
                // socket that it waits for would wake it at once, for as long as this loop goes on.
                let driven = pin!(coop::unconstrained(poll_fn(|cx| driver.poll(self, now, cx))));
                catch_unwind(AssertUnwindSafe(|| driven.poll(&mut context)))
            });
            let (ended, is_gone) = match polled {
                Some(Ok(Poll::Pending)) | None => (None, false),
                Some(Ok(Poll::Ready(()))) => (slot.take(), false),
                // A panic of the store, which has been printed.
                Some(Err(_)) => (slot.take(), true),
            };
            drop(slot);
            if is_gone {
                self.orphaned(driver::gone());
            }
            if ended.is_some() {
                foreign::call(|| drop(ended));
            }
            if self.baton.lay_down() {
                break;
            }
        }
        if let Some(waker) = lock(&self.granted).take()
            && !own.is_some_and(|own| own.will_wake(&waker))
        {
            self.handed.wake(waker);
        }
    }

    /// It is off the register.
    pub(super) fn retired(&self) {
        self.handed.end();
    }

    /// The conductor looks. `now` is the time at which it began to look at keys, so less time may
    /// seem to have passed than has. Nothing more is promised for that.
    pub(super) fn look(self: &Arc<Self>, now: Instant) {
        let late = lock(&self.releasing).take_if(|releaser| releaser.until <= now);
        if let Some(late) = late {
            foreign::wake(late.waker);
        }
        self.baton.wake();
        self.drive(None, Some(now));
    }

    /// Its callers have had it for [`LOOK_AFTER`]: the conductor looks after it now.
    pub(super) fn grows_up(&self) {
        self.baton.grows_up();
    }

    pub(super) fn is_grown_up(&self) -> bool {
        self.baton.is_grown_up()
    }

    /// The driver has nothing to do until something wakes it, or until then.
    pub(super) fn rests(self: &Arc<Self>, now: Instant, until: Option<Instant>) {
        let released = lock(&self.releasing).as_ref().map(|releaser| releaser.until);
        let until = until.into_iter().chain(released).min();
        let conductor = &self.shared.conductor;
        if self.is_grown_up() {
            if let Some(until) = until {
                conductor.watch(self, until);
            }
            return;
        }
        let look = now.plus(LOOK_AFTER);
        let look = until.map_or(look, |until| until.min(look));
        conductor.sweep_by(&self.shared, look);
    }

    /// There is nobody to keep what this key promises.
    pub(super) fn unserved(self: &Arc<Self>, why: &io::Error) {
        let what = "no thread could be started to look after locks";
        let why = io::Error::new(why.kind(), why.to_string());
        let mut fx = Effects::none();
        self.cohort().unserved(Fault::new(FaultKind::Transient, what).with_source(why), &mut fx);
        self.apply(fx);
    }

    /// Has all who wait here look again: the conductor is gone with its runtime.
    pub(super) fn call_all(self: &Arc<Self>) {
        self.baton.wake();
        let wakers = self.cohort().wakers();
        wakers.into_iter().for_each(foreign::wake);
    }

    /// Ends what is left to do for a key that nobody here wants or holds any more: its runtime is
    /// gone, and nobody would poll it again.
    pub(super) fn leave_alone(self: &Arc<Self>) {
        if self.cohort().is_forsaken() {
            let driver = lock(&self.driver).take();
            if driver.is_some() {
                self.orphaned(driver::gone());
            }
        }
    }

    /// A release waits for the store, until then; gives its waker back at the end of its polls.
    pub(super) fn releasing(&self) -> MutexGuard<'_, Option<Releaser>> {
        lock(&self.releasing)
    }

    /// Somebody began to watch the hold, so pushes of the store are listened for. Where that is no
    /// detour it is at once, and this returns true; elsewhere it is from [`LOOK_AFTER`] on.
    pub(super) fn attend(self: &Arc<Self>) -> bool {
        let is_inline = self.shared.conductor.is_inline();
        if is_inline {
            self.baton.wake();
            self.nudge();
        }
        is_inline
    }

    /// Whether there is something to poll for, and nobody who does.
    pub(super) fn is_woken(&self) -> bool {
        self.baton.lies()
    }

    /// The row of this key for those who watch a service.
    pub(super) fn busy(&self) -> BusyKey {
        let now = clock::now();
        let cohort = self.cohort();
        let guards = cohort.holds(now).into_iter().map(|(token, mode, since, until)| BusyHold {
            mode,
            token: FencingToken::new(token),
            held_for: now.saturating_duration_since(since),
            lease_left: until.saturating_duration_since(now),
        });
        let guards = guards.collect();
        let waiters = cohort.waiters();
        let (refused, (holds, waits)) = (cohort.counters().refused, cohort.of_late());
        BusyKey { key: self.key.clone(), guards, waiters, refused, holds, waits }
    }

    /// Work for this key ended in a panic, under the baton perhaps.
    pub(super) fn fails(self: &Arc<Self>) {
        let driver = lock(&self.driver).take();
        foreign::call(|| drop(driver));
        self.orphaned(driver::gone());
    }

    /// Nobody drives this key any more.
    pub(super) fn orphaned(self: &Arc<Self>, why: Fault) {
        let mut fx = Effects::none();
        self.cohort().orphan(why, clock::now(), &mut fx);
        self.apply(fx);
        self.shared.retire(self, false);
    }

    pub(super) fn why_lost(&self, token: u64, reason: LossReason) -> LostError {
        LostError { key: self.key.clone(), token: FencingToken::new(token), reason }
    }
}

impl ArcWake for KeyCell {
    fn wake_by_ref(cell: &Arc<Self>) {
        if cell.baton.wake() {
            cell.tell();
        }
    }
}
