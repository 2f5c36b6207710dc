//! One busy key: its cohort behind a short mutex, and what a guard does with it.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use std::{fmt, io};

use futures_util::task::{ArcWake, waker_ref};
use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio::task::coop;

use super::driver::{self, Driver};
use super::host::{Host, KeyCohort, KeyEffects};
use super::opens::Opens;
use super::shared::{SharedBy, TimerBy};
use crate::backend::{ClaimId, DynClaim, Fault, FaultKind, Terms};
use crate::engine::conduct::{Baton, HELPED_AFTER, Handed, Kept, LOOK_AFTER, NEVER, ROUNDS_MAX};
use crate::engine::observe;
use crate::error::{LossReason, LostError};
use crate::ground::{Plus as _, background, clock, foreign, lock};
use crate::key::Key;
use crate::proto::{Ask, Cohort, Effects, Entry, SeatId, Waking};
use crate::token::FencingToken;
use crate::view::{BusyHold, BusyKey};

/// State that all keys of one client share.
pub(crate) type Shared = SharedBy<KeyCell>;

/// A timer for whoever polls it.
pub(in crate::engine) type Timer = TimerBy<KeyCell>;

/// One busy key of a client: its cohort, its driver, and who polls that.
pub(crate) struct KeyCell {
    key: Key,
    hash: u64,
    cohort: Mutex<KeyCohort>,
    /// The driver talks to the store; whoever has the baton polls it.
    driver: Mutex<Option<Driver<KeyCell>>>,
    opens: Opens,
    baton: Baton,
    /// The seat that was granted the key while the driver was polled, and its waker: told when that
    /// is over.
    granted: Mutex<Option<(SeatId, Waker)>>,
    /// Wakes whoever was granted the key.
    handed: Handed,
    /// The releases that wait for the store: permits are given up beside each other.
    releasing: Mutex<Releasers>,
    /// When the conductor looks here next, see [`Kept::watched`].
    watched: AtomicU64,
    pub(in crate::engine) shared: Arc<Shared>,
}

/// A caller that waits for the end of its release.
#[derive(Debug)]
pub(in crate::engine) struct Releaser {
    pub(in crate::engine) token: u64,
    pub(in crate::engine) waker: Waker,
    /// When it has waited for long enough.
    pub(in crate::engine) until: Instant,
}

/// Who polls the driver of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum Drives {
    /// The conductor, or one who goes.
    Nobody,
    /// A caller that waits for the end of its release.
    Releaser,
    /// A caller that waits in this seat, and looks at it next: it need not be woken for that. The
    /// task alone would not tell, as it may wait in several seats.
    Seat(SeatId),
}

/// Few keys have more than one.
pub(in crate::engine) type Releasers = SmallVec<[Releaser; 1]>;

impl KeyCell {
    pub(in crate::engine) fn new(key: Key, opens: Opens, hash: u64, shared: Arc<Shared>) -> Self {
        Self {
            key,
            opens,
            hash,
            cohort: Mutex::new(Cohort::new()),
            driver: Mutex::new(None),
            baton: Baton::default(),
            granted: Mutex::new(None),
            handed: Handed::default(),
            releasing: Mutex::default(),
            watched: AtomicU64::new(NEVER),
            shared,
        }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(super) fn is_of_one(&self) -> bool {
        self.opens.is_of_one()
    }

    /// Never held across an await, a wake or a call into foreign code.
    pub(in crate::engine) fn cohort(&self) -> MutexGuard<'_, KeyCohort> {
        lock(&self.cohort)
    }

    /// Finds or makes the cell of `key` that `opens` such claims, and enters it.
    pub(in crate::engine) fn enter(
        shared: &Arc<Shared>,
        key: &Key,
        opens: &Opens,
        ask: &Ask,
        now: Instant,
        cx: &Context<'_>,
    ) -> (Arc<Self>, Entry) {
        loop {
            let make = |hash| Arc::new(Self::new(key.clone(), opens.clone(), hash, shared.clone()));
            let cell = match opens.is_of_one() {
                false => shared.conductor.registry.cell(key, make),
                true => shared.conductor.registry.add(key, make),
            };
            let mut fx = Effects::none();
            let waker = || cx.waker().clone();
            let lingers = !ask.linger.is_zero() || !ask.min_hold.is_zero();
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
                *lock(&cell.driver) = Some(Driver::new());
            }
            cell.apply(fx);
            if !matches!(entry, Entry::Seated(_) | Entry::Granted(_)) {
                // A cell made for nothing must not stay behind.
                cell.retire(false);
            }
            if !matches!(entry, Entry::Retired) {
                return (cell, entry);
            }
        }
    }

    /// Does what the cohort left to do outside its mutex. The driver is the caller's to poll.
    pub(in crate::engine) fn apply(self: &Arc<Self>, mut fx: KeyEffects) {
        let granted = fx.wake.take();
        self.apply_driven(fx);
        // Behind all others who are woken: whoever is the last may have to wait for this task.
        if let Some((_, waker)) = granted {
            self.handed.wake(waker);
        }
    }

    /// Does what is left to do, and has the driver polled: by a caller that waits for the key, or
    /// by the conductor. For who does not wait.
    pub(in crate::engine) fn settle(self: &Arc<Self>, fx: KeyEffects) {
        self.apply(fx);
        self.nudge();
    }

    /// Has the driver polled, if there is something to poll for and nobody who does. For who was
    /// told to, and goes.
    pub(in crate::engine) fn nudge(self: &Arc<Self>) {
        if !self.baton.lies() {
            return;
        }
        if self.shared.conductor.is_inline() {
            self.drive(Drives::Nobody, None);
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
        let releaser = lock(&self.releasing).last().map(|releaser| releaser.waker.clone());
        let Some(waker) = releaser.or_else(|| self.cohort().head_waker()) else {
            return self.shared.conductor.take_on(self);
        };
        foreign::wake(waker);
        // A young key is swept up soon enough.
        if self.is_grown_up() {
            match self.baton.tells() {
                true => self.shared.conductor.take_on(self),
                false => self.shared.conductor.watch(self, clock::now().plus(HELPED_AFTER)),
            }
        }
    }

    /// Polls the driver, if there is something to poll for and nobody who does. `now` is what the
    /// caller has just read of the clock.
    pub(in crate::engine) fn drive(self: &Arc<Self>, by: Drives, mut now: Option<Instant>) {
        let is_caller = by != Drives::Nobody;
        if is_caller {
            self.baton.comes();
        }
        if !self.baton.take() {
            return;
        }
        let waker = waker_ref(self);
        for round in 1.. {
            // Requests have timers and connections; the caller may be on another executor, and learn in
            // this very round that its runtime has ended.
            let is_inside = background::is_here() || clock::runtime().is_some();
            let runtime = match is_inside {
                true => None,
                false => self.shared.conductor.runtime(is_caller),
            };
            let _entered = runtime.as_ref().map(Handle::enter);
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
            // The conductor goes on, and looks at other keys in between.
            if round == ROUNDS_MAX {
                self.baton.put_down();
                self.shared.conductor.take_on(self);
                break;
            }
        }
        // A waker may do anything, so the mutex is not held over it.
        let granted = lock(&self.granted).take();
        if let Some((_, waker)) = granted.filter(|(seat, _)| by != Drives::Seat(*seat)) {
            self.handed.wake(waker);
        }
    }

    pub(in crate::engine) fn is_grown_up(&self) -> bool {
        self.baton.is_grown_up()
    }

    /// The releases that wait for the store, each until it is told or dropped.
    pub(in crate::engine) fn releasing(&self) -> MutexGuard<'_, Releasers> {
        lock(&self.releasing)
    }

    /// Somebody began to watch the hold, so pushes of the store are listened for. Where that is no
    /// detour it is at once, and this returns true; elsewhere it is from [`LOOK_AFTER`] on.
    pub(in crate::engine) fn attend(self: &Arc<Self>) -> bool {
        let is_inline = self.shared.conductor.is_inline();
        if is_inline {
            self.baton.wake();
            self.nudge();
        }
        is_inline
    }

    /// Whether there is something to poll for, and nobody who does.
    pub(in crate::engine) fn is_woken(&self) -> bool {
        self.baton.lies()
    }

    /// The row of this key for those who watch a service.
    pub(in crate::engine) fn busy(&self, now: Instant) -> BusyKey {
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

    /// Nobody drives this key any more.
    pub(in crate::engine) fn orphaned(self: &Arc<Self>, why: Fault) {
        let mut fx = Effects::none();
        let left = self.cohort().orphan(why, clock::now(), &mut fx);
        self.apply(fx);
        foreign::call(|| drop(left));
        self.retire(false);
    }

    /// Takes it off the register, if nothing is left to do; whether it did.
    fn retire(self: &Arc<Self>, by_driver: bool) -> bool {
        let retire = |cell: &Self| {
            let mut cohort = cell.cohort();
            cohort.retire(by_driver).then(|| cohort.counters())
        };
        let conductor = &self.shared.conductor;
        let retired = conductor.registry.retire(self, retire);
        if retired {
            conductor.forget(self);
            self.handed.end();
            self.shared.is_quieter();
        }
        retired
    }

    pub(in crate::engine) fn why_lost(&self, token: u64, reason: LossReason) -> LostError {
        LostError { key: self.key.clone(), token: FencingToken::new(token), reason }
    }
}

/// Why a key is not served.
pub(in crate::engine) fn unserved(why: &io::Error) -> Fault {
    let what = "no thread could be started to look after locks";
    let why = io::Error::new(why.kind(), why.to_string());
    Fault::new(FaultKind::Transient, what).with_source(why)
}

impl ArcWake for KeyCell {
    fn wake_by_ref(cell: &Arc<Self>) {
        if cell.baton.wake() {
            cell.tell();
        }
    }
}

impl Kept for KeyCell {
    fn is_of(&self, key: &Key) -> bool {
        self.key == *key && !self.is_of_one()
    }

    fn hash(&self) -> u64 {
        self.hash
    }

    fn watched(&self) -> &AtomicU64 {
        &self.watched
    }

    fn look(self: &Arc<Self>, now: Instant) {
        let mut late = Releasers::new();
        let mut releasing = lock(&self.releasing);
        while let Some(at) = releasing.iter().position(|releaser| releaser.until <= now) {
            late.push(releasing.swap_remove(at));
        }
        drop(releasing);
        late.into_iter().for_each(|late| foreign::wake(late.waker));
        self.baton.wake();
        self.drive(Drives::Nobody, Some(now));
    }

    fn grows_up(&self) {
        self.baton.grows_up();
    }

    fn fails(self: &Arc<Self>) {
        let driver = lock(&self.driver).take();
        foreign::call(|| drop(driver));
        self.orphaned(driver::gone());
    }

    fn is_unserved(self: &Arc<Self>, why: &io::Error) {
        let mut fx = Effects::none();
        self.cohort().unserved(unserved(why), &mut fx);
        self.apply(fx);
    }

    fn is_deserted(self: &Arc<Self>) {
        self.baton.wake();
        let wakers = self.cohort().wakers();
        wakers.into_iter().for_each(foreign::wake);
        let releasers: Vec<_> = self.releasing().iter().map(|it| it.waker.clone()).collect();
        let is_released = releasers.is_empty();
        releasers.into_iter().for_each(foreign::wake);
        // Nobody would poll the rest of a key that nobody here wants, holds or gives back any more.
        if is_released && self.cohort().is_forsaken() {
            let driver = lock(&self.driver).take();
            if driver.is_some() {
                self.orphaned(driver::gone());
            }
        }
    }
}

impl Host for KeyCell {
    fn key(&self) -> &Key {
        &self.key
    }

    fn cohort(&self) -> MutexGuard<'_, KeyCohort> {
        lock(&self.cohort)
    }

    fn is_grown_up(&self) -> bool {
        self.baton.is_grown_up()
    }

    fn claim(&self, id: ClaimId, terms: Terms) -> Box<dyn DynClaim> {
        self.opens.claim(&*self.shared.backend, &self.key, id, terms)
    }

    /// A client that is shut down or dropped does not wait for it, and nothing is kept for it but the
    /// connections. Candidates ask anew whatever the error says.
    fn asks_for_rival(self: &Arc<Self>, now: Instant) {
        let Some(turn) = self.shared.rival_turn().filter(|_| !self.is_of_one()) else { return };
        let cell = Arc::downgrade(self);
        let (backend, key) = (self.shared.backend.clone(), self.key.clone());
        self.shared.conductor.spawn(async move {
            let _turn = turn;
            // An error of a wait says less where this failed.
            if let Ok(Some(holder)) = backend.holder(&key).await
                && let Some(cell) = cell.upgrade()
            {
                cell.cohort().rival_is(holder, now);
            }
        });
    }

    /// Whoever was granted the key is told when the driver was polled, unless it is the one who
    /// polls.
    fn apply_driven(self: &Arc<Self>, fx: KeyEffects) {
        if fx.poke || fx.spawn {
            self.baton.wake();
        }
        let earlier = fx.wake.and_then(|granted| lock(&self.granted).replace(granted));
        earlier.into_iter().for_each(|(_, waker)| foreign::wake(waker));
        for waking in fx.wake_more {
            match waking {
                Waking::Wake(waker) => foreign::wake(waker),
                Waking::End(waker) => foreign::end(waker),
            }
        }
        if let Some((reply, answer)) = fx.reply {
            // The releasing task may be gone; the release is done all the same.
            foreign::answer(reply, answer);
        }
        observe::count(&self.key, &fx.changes);
    }

    fn is_handed_over(self: &Arc<Self>) -> bool {
        let is_here = self.shared.conductor.is_here();
        if !is_here {
            self.shared.conductor.take_on(self);
        }
        !is_here
    }

    fn rests(self: &Arc<Self>, now: Instant, until: Option<Instant>) {
        let released = lock(&self.releasing).iter().map(|releaser| releaser.until).min();
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
        conductor.sweep_by(look);
    }

    fn retires(self: &Arc<Self>) -> bool {
        self.retire(true)
    }

    fn in_background(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let counted = self.shared.leave();
        self.shared.conductor.spawn(async move {
            let _counted = counted;
            work.await;
        });
    }
}

impl fmt::Debug for KeyCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not what it shares with all other keys of its client, which would print this one again.
        f.debug_struct("KeyCell").field("key", &self.key).finish_non_exhaustive()
    }
}
