//! The conductor of a client: it polls the drivers that no waiting caller polls, and has the timers
//! of all keys.
//!
//! A key is *young* at first: the callers that want it poll its driver, and the conductor knows
//! nothing of it. The conductor sweeps the young keys up [`LOOK_AFTER`] the first of them. Those
//! that are still busy are its own from then on: it listens for them, renews them, and looks at
//! each when its time has come. So a key that nobody else wants costs the conductor nothing if it
//! is held for a short time. A key whose callers are all blocked is served all the same.
//!
//! It runs on a thread of its own, with a small runtime of its own, so that nothing an application
//! does to its runtimes holds it up. Or it is a task of the caller's runtime, see [`Background`]. A
//! task moves to the thread for good with the first caller who waits without a runtime: nobody knows
//! who drives the one that the task is in.

use std::cmp::Ordering as Order;
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::iter::once_with;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

use super::Kept;
use super::registry::Registry;
use super::sweep::{NEVER, Sweep};
use crate::ground::{Plus as _, background, clock, foreign, lock, own_thread};
use crate::options::Background;

/// A key is left to its callers for this long: short beside a lease, long beside a request.
pub(in crate::engine) const LOOK_AFTER: Duration = Duration::from_millis(50);

/// A caller that was told to poll its key and does not come to run is helped after this time at the
/// latest. That is no longer than a lost push may cost.
pub(in crate::engine) const HELPED_AFTER: Duration = Duration::from_millis(500);

/// Rounds in one poll of what a store has an answer for. One that always has the next keeps no thread:
/// its key, or stream, has another poll when others had theirs, and what the clock ends is ended.
pub(in crate::engine) const ROUNDS_MAX: usize = 64;

/// Keys that are looked at in one turn, before requests that were answered have theirs.
const TURN_MAX: usize = 256;

/// Keys that are looked at under one reading of the clock: well under a millisecond's worth.
const LOOKS_PER_READING: usize = 32;

/// The instant that its times count from. In a runtime whose test clock is paused, this may be
/// earlier than when it began.
const BEGAN: u64 = 1 << 62;

/// The conductor of one client: the busy keys, which of them it is to watch, and how to reach it.
#[derive(Debug)]
pub(in crate::engine) struct Conductor<K> {
    /// The busy keys.
    pub(in crate::engine) registry: Registry<K>,
    on: Background,
    /// The runtime that the client was made in, if it has timers.
    home: Option<Handle>,
    began: Instant,
    sweep: Sweep,
    /// It is on a thread: its timers serve every caller.
    on_thread: AtomicBool,
    work: Mutex<Work<K>>,
}

#[derive(Debug)]
struct Work<K> {
    runner: Runner,
    /// That of whoever is the conductor. Who has another one was relieved.
    shift: Arc<Shift>,
    /// Keys to be polled now.
    wanted: Vec<Arc<K>>,
    /// Keys by the time at which to look at them; each is here once at most, as it knows itself.
    due: BTreeSet<Due<K>>,
    /// It looks at keys, and will look here again before it sleeps.
    is_turning: bool,
}

/// When to look at a key. Small, as each held key has one.
#[derive(Debug)]
struct Due<K> {
    /// In nanoseconds of the conductor.
    at: u64,
    cell: Arc<K>,
}

impl<K> Due<K> {
    fn order(&self) -> (u64, *const K) {
        (self.at, Arc::as_ptr(&self.cell))
    }
}

impl<K> Ord for Due<K> {
    fn cmp(&self, other: &Self) -> Order {
        self.order().cmp(&other.order())
    }
}

impl<K> PartialOrd for Due<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl<K> PartialEq for Due<K> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<K> Eq for Due<K> {}

/// What a conductor has in common with those who start and poke it.
#[derive(Debug, Default)]
struct Shift {
    poked: Notify,
    stage: Mutex<Stage>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    // ## Offered => (Taken | Deserted | Ended)
    /// A runtime was asked to run it, and may refuse.
    #[default]
    Offered,
    // ## Taken => (Deserted | Ended)
    /// Whoever started it has gone on, and does not look here again.
    Taken,
    /// Its runtime is over, and dropped it.
    Deserted,
    /// It had nothing left to do.
    Ended,
}

impl Shift {
    /// Leaves it to the runtime that it was offered to; whether that has run it, or will.
    fn take(&self) -> bool {
        let mut stage = lock(&self.stage);
        if *stage == Stage::Offered {
            *stage = Stage::Taken;
        }
        *stage != Stage::Deserted
    }

    fn end(&self) {
        *lock(&self.stage) = Stage::Ended;
    }

    /// Its task is dropped; whether nobody else sees to its keys.
    fn desert(&self) -> bool {
        let mut stage = lock(&self.stage);
        let is_taken = *stage == Stage::Taken;
        if *stage != Stage::Ended {
            *stage = Stage::Deserted;
        }
        is_taken
    }
}

#[derive(Debug, Default)]
enum Runner {
    #[default]
    Nowhere,
    Thread(Handle),
    Task(Handle),
}

impl<K: Kept> Conductor<K> {
    pub(in crate::engine) fn new(on: Background) -> Self {
        Self {
            registry: Registry::new(),
            on,
            home: clock::runtime(),
            began: clock::now(),
            sweep: Sweep::new(),
            on_thread: AtomicBool::new(false),
            work: Mutex::new(Work::new()),
        }
    }

    /// Whether what a caller leaves is done where the caller is, without a detour.
    pub(in crate::engine) fn is_inline(&self) -> bool {
        self.on == Background::Runtime
    }

    /// Whether this code may send what only the conductor sends.
    pub(in crate::engine) fn is_here(&self) -> bool {
        self.is_inline() || background::is_here()
    }

    /// Whether its timers fire for whoever runs here: it is on a thread, or a task of the runtime
    /// of the caller, and would be blocked with it.
    pub(in crate::engine) fn serves_here(&self) -> bool {
        if self.on_thread.load(Ordering::Acquire) {
            // The clock of a runtime may be a test's.
            return !self.is_inline() || clock::runtime().is_none();
        }
        let here = Handle::try_current().ok().map(|here| here.id());
        match &self.work().runner {
            Runner::Thread(_) => true,
            Runner::Task(runtime) => here == Some(runtime.id()),
            Runner::Nowhere => false,
        }
    }

    /// Whoever had this shift is gone with its runtime; whether that was the conductor.
    fn is_gone(&self, shift: &Arc<Shift>) -> bool {
        let mut work = self.work();
        if !work.is_at(shift) {
            return false;
        }
        self.on_thread.store(false, Ordering::Release);
        (work.runner, work.is_turning) = (Runner::Nowhere, false);
        // Whoever has just started it there is to find that out.
        work.shift = Arc::default();
        let wanted = mem::take(&mut work.wanted);
        drop((work, wanted));
        self.sweep.forget();
        true
    }

    fn work(&self) -> MutexGuard<'_, Work<K>> {
        lock(&self.work)
    }

    /// An instant in its own nanoseconds.
    fn nanos(&self, at: Instant) -> u64 {
        match at.checked_duration_since(self.began) {
            Some(since) => BEGAN + since.as_nanos() as u64,
            None => BEGAN - self.began.saturating_duration_since(at).as_nanos() as u64,
        }
    }

    fn instant(&self, nanos: u64) -> Option<Instant> {
        match nanos {
            NEVER => None,
            BEGAN.. => Some(self.began.plus(Duration::from_nanos(nanos - BEGAN))),
            _ => self.began.checked_sub(Duration::from_nanos(BEGAN - nanos)),
        }
    }

    /// Sees to it that there is a thread to look after keys, before anything is asked for one.
    pub(in crate::engine) fn begin(self: &Arc<Self>) -> io::Result<()> {
        if self.is_inline() || self.on_thread.load(Ordering::Acquire) {
            return Ok(());
        }
        self.poke()
    }

    /// Sees to it that the young keys are swept up by then. Where nobody can, all who wait for one
    /// are told so.
    pub(in crate::engine) fn sweep_by(self: &Arc<Self>, at: Instant) {
        if self.sweep.ask(self.nanos(at))
            && let Err(error) = self.poke()
        {
            // The next one tries to start it again.
            self.sweep.forget();
            // Also those who came meanwhile, and found that a sweep was asked for.
            for cell in self.registry.cells() {
                cell.is_unserved(&error);
            }
        }
    }

    /// Polls a key that nobody else polls.
    pub(in crate::engine) fn take_on(self: &Arc<Self>, cell: &Arc<K>) {
        self.work().wanted.push(cell.clone());
        self.begin_for(cell);
    }

    /// Looks at a key by then at the latest.
    pub(in crate::engine) fn watch(self: &Arc<Self>, cell: &Arc<K>, at: Instant) {
        let at = self.nanos(at);
        let mut work = self.work();
        if cell.watched().load(Ordering::Relaxed) <= at {
            let is_gone = matches!(work.runner, Runner::Nowhere);
            drop(work);
            if is_gone {
                self.begin_for(cell);
            }
            return;
        }
        work.unwatch(cell);
        // What a conductor that is gone was to look at is there yet, perhaps as the first.
        let is_first = work.due.first().is_none_or(|first| at < first.at);
        let pokes = is_first || matches!(work.runner, Runner::Nowhere);
        cell.watched().store(at, Ordering::Relaxed);
        work.due.insert(Due { at, cell: cell.clone() });
        drop(work);
        if pokes {
            self.begin_for(cell);
        }
    }

    /// A key is not busy any more.
    pub(in crate::engine) fn forget(&self, cell: &Arc<K>) {
        let mut work = self.work();
        work.unwatch(cell);
        let is_asleep = matches!(work.runner, Runner::Task(_)) && !work.is_turning;
        if is_asleep && !self.is_swept_soon() {
            // It may end.
            work.shift.poked.notify_one();
        }
    }

    /// No key is busy, and none is likely to come: a task ends without waiting for the next.
    pub(in crate::engine) fn has_no_keys(&self) {
        let work = self.work();
        if self.sweep.end(|| self.registry.is_empty()) {
            work.shift.poked.notify_one();
        }
    }

    fn begin_for(self: &Arc<Self>, cell: &Arc<K>) {
        if let Err(error) = self.poke() {
            cell.is_unserved(&error);
        }
    }

    /// Makes it look again; starts it if need be.
    fn poke(self: &Arc<Self>) -> io::Result<()> {
        let work = self.work();
        if let Runner::Nowhere = work.runner {
            return self.start(work);
        }
        let asleep = (!work.is_turning).then(|| work.shift.clone());
        drop(work);
        if let Some(shift) = asleep {
            shift.poked.notify_one();
        }
        Ok(())
    }

    /// The runtime of an application that the caller is in. A store's own thread wakes whoever waits for
    /// an answer, and nothing of an application's is to be done there.
    fn here() -> Option<Handle> {
        clock::runtime().filter(|_| !own_thread::is_here())
    }

    fn may_be_a_task(&self) -> bool {
        self.is_inline() && !self.on_thread.load(Ordering::Acquire)
    }

    /// The runtimes that it may be a task of, the better one first: none where it is on a thread, or the
    /// caller has none.
    fn runtimes(&self) -> impl Iterator<Item = Handle> {
        let callers = clock::runtime().filter(|_| self.may_be_a_task());
        let home = callers.as_ref().and(self.home.clone());
        callers.filter(|_| !own_thread::is_here()).into_iter().chain(home)
    }

    /// Whether there is to be none where no runtime takes it: the next caller in one that does starts it
    /// there. The end of a runtime is no reason for a thread, whose clock may be another.
    fn waits_for_a_runtime(&self) -> bool {
        self.may_be_a_task() && Self::here().is_some()
    }

    fn start<'a>(self: &'a Arc<Self>, mut work: MutexGuard<'a, Work<K>>) -> io::Result<()> {
        for runtime in self.runtimes() {
            let shift = Arc::default();
            // Nowhere yet: others who poke it meanwhile try for themselves.
            work.is_replaced_by(Runner::Nowhere, &shift);
            // A runtime that is ending drops the task here and now, and that needs the mutex.
            drop(work);
            drop(runtime.spawn(Running::at(&shift, self).conduct()));
            let is_taken = shift.take();
            work = self.work();
            if !work.is_at(&shift) {
                return Ok(());
            }
            if is_taken {
                work.runner = Runner::Task(runtime);
                // It may have found nothing to do meanwhile.
                shift.poked.notify_one();
                return Ok(());
            }
        }
        if self.waits_for_a_runtime() {
            self.sweep.forget();
            return Ok(());
        }
        self.start_thread(work).map(drop)
    }

    /// Goes on there, wherever it was before.
    fn start_thread(self: &Arc<Self>, mut work: MutexGuard<'_, Work<K>>) -> io::Result<Handle> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let shift = Arc::default();
        // Without a thread it is dropped here, under the mutex.
        let running = Running::at(&shift, self);
        let conduct = move || async move {
            let _here = background::enter();
            running.conduct().await;
        };
        let handle = own_thread::start("lock-conductor", runtime, conduct)?;
        work.is_replaced_by(Runner::Thread(handle.clone()), &shift);
        shift.take();
        self.on_thread.store(true, Ordering::Release);
        Ok(handle)
    }

    /// A runtime for what is polled outside of any; `None` where there is none to be had. For a caller
    /// who `waits` it is that of a thread of ours, if it can be.
    pub(in crate::engine) fn runtime(self: &Arc<Self>, waits: bool) -> Option<Handle> {
        let work = self.work();
        let theirs = match &work.runner {
            Runner::Thread(runtime) => return Some(runtime.clone()),
            Runner::Task(runtime) => Some(runtime.clone()),
            Runner::Nowhere => self.home.clone().filter(|_| self.is_inline()),
        };
        match theirs {
            Some(theirs) if !waits && !is_over(&theirs) => Some(theirs),
            theirs => self.start_thread(work).ok().or(theirs),
        }
    }

    /// Runs what no key waits for. Without any runtime the claim ends with its lease.
    pub(in crate::engine) fn spawn(
        self: &Arc<Self>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let work = Arc::new(Mutex::new(Some(work)));
        let ours = || (!self.waits_for_a_runtime()).then(|| self.runtime(true)).flatten();
        for runtime in self.runtimes().chain(once_with(ours).flatten()) {
            let offered = work.clone();
            let task = runtime.spawn(async move {
                let work = lock(&offered).take();
                if let Some(work) = work {
                    work.await;
                }
            });
            // A runtime that is ending drops it here and now, unpolled.
            if !task.is_finished() || lock(&work).is_none() {
                return;
            }
        }
    }

    /// Looks at what is due; says when to look again, `None` if there is nothing to wait for.
    fn turn(&self, shift: &Arc<Shift>) -> Option<Instant> {
        let now = clock::now();
        let nanos = self.nanos(now);
        let mut work = self.work();
        if !work.is_at(shift) {
            return None;
        }
        let mut cells = mem::take(&mut work.wanted);
        // What is due does not wait for what is wanted, of which there may be more at each turn.
        let most = cells.len() + TURN_MAX;
        while cells.len() < most
            && work.due.first().is_some_and(|first| first.at <= nanos)
            && let Some(Due { cell, .. }) = work.due.pop_first()
        {
            cell.watched().store(NEVER, Ordering::Relaxed);
            cells.push(cell);
        }
        work.is_turning = true;
        drop(work);
        for cell in self.sweep.run(nanos, || self.registry.grown_up()).into_iter().flatten() {
            cell.grows_up();
            cells.push(cell);
        }
        for some in cells.chunks(LOOKS_PER_READING) {
            let now = clock::now();
            for cell in some {
                if !foreign::call(|| cell.look(now)) {
                    // It takes no other key with it.
                    foreign::call(|| cell.fails());
                }
            }
        }
        let mut work = self.work();
        if !work.is_at(shift) {
            return None;
        }
        work.is_turning = false;
        if !work.wanted.is_empty() {
            return Some(now);
        }
        let due = work.due.first().map_or(NEVER, |first| first.at);
        self.instant(due.min(self.sweep.at()))
    }

    /// Whether it looks again in a moment anyway. A task stays for that: to end it and to start another
    /// for the next key takes longer than an acquire.
    fn is_swept_soon(&self) -> bool {
        self.sweep.at() != NEVER
    }

    /// Whether there is nothing left to do for a task, which ends with that; a thread ends with its
    /// client. One that was relieved ends as well.
    fn may_end(&self, shift: &Arc<Shift>) -> bool {
        let mut work = self.work();
        if !work.is_at(shift) {
            return true;
        }
        let is_task = matches!(work.runner, Runner::Task(_));
        if !is_task || !work.wanted.is_empty() || self.is_swept_soon() {
            return false;
        }
        // A key that comes behind this asks for a conductor, and waits for the mutex that is held
        // here.
        if !self.sweep.end(|| self.registry.is_empty()) {
            return false;
        }
        work.runner = Runner::Nowhere;
        true
    }
}

impl<K: Kept> Work<K> {
    fn new() -> Self {
        let (runner, wanted, due) = (Runner::Nowhere, Vec::new(), BTreeSet::new());
        Self { runner, shift: Arc::default(), wanted, due, is_turning: false }
    }

    fn is_at(&self, shift: &Arc<Shift>) -> bool {
        Arc::ptr_eq(&self.shift, shift)
    }

    /// Another is the conductor from here on, at this shift.
    fn is_replaced_by(&mut self, runner: Runner, shift: &Arc<Shift>) {
        self.shift.poked.notify_one();
        (self.runner, self.shift, self.is_turning) = (runner, shift.clone(), false);
    }

    /// It is not to be looked at.
    fn unwatch(&mut self, cell: &Arc<K>) {
        let at = cell.watched().swap(NEVER, Ordering::Relaxed);
        if at != NEVER {
            self.due.remove(&Due { at, cell: cell.clone() });
        }
    }
}

impl<K> Drop for Conductor<K> {
    fn drop(&mut self) {
        // It finds the client gone.
        lock(&self.work).shift.poked.notify_one();
    }
}

/// Whether a runtime has ended: its timers panic.
fn is_over(runtime: &Handle) -> bool {
    matches!(runtime.spawn(async {}).now_or_never(), Some(Err(_)))
}

/// The conductor at work.
struct Running<K: Kept> {
    conductor: Weak<Conductor<K>>,
    shift: Arc<Shift>,
}

impl<K: Kept> Running<K> {
    fn at(shift: &Arc<Shift>, conductor: &Arc<Conductor<K>>) -> Self {
        Self { conductor: Arc::downgrade(conductor), shift: shift.clone() }
    }

    async fn conduct(self) {
        let shift = &self.shift;
        loop {
            let Some(conductor) = self.conductor.upgrade() else { break };
            let next = conductor.turn(shift);
            if conductor.may_end(shift) {
                break;
            }
            // The client ends with its last user, who may be this.
            drop(conductor);
            match next {
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = shift.poked.notified() => {}
                        () = clock::sleep_until(at) => {}
                    }
                }
                None => shift.poked.notified().await,
            }
            // Answers that came meanwhile have their turn.
            tokio::task::yield_now().await;
        }
        shift.end();
    }
}

impl<K: Kept> Drop for Running<K> {
    fn drop(&mut self) {
        if !self.shift.desert() {
            return;
        }
        // The runtime that it was a task of is gone.
        if let Some(conductor) = self.conductor.upgrade()
            && conductor.is_gone(&self.shift)
        {
            for cell in conductor.registry.cells() {
                cell.is_deserted();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc;
    use std::thread;

    use tokio::runtime::{Id, Runtime};

    use super::*;
    use crate::backend::io::Home;
    use crate::blocking::wait;
    use crate::engine::key::KeyCell;
    use crate::engine::{Acquire, Plan, Shared};
    use crate::key::Key;
    use crate::memory::Memory;
    use crate::options::LockOptions;
    use crate::{LockClient, LockGuard};

    /// A test that waits for longer is broken.
    const WITHIN: Duration = Duration::from_secs(20);

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    async fn shared() -> Arc<Shared> {
        let (backend, on) = (Arc::new(Memory::new()), Background::Runtime);
        Arc::new(Shared::new(backend, LockOptions::default(), 1, Some(on), None))
    }

    /// Where its task is.
    fn task_of(conductor: &Conductor<KeyCell>) -> Id {
        match &conductor.work().runner {
            Runner::Task(at) => at.id(),
            runner => panic!("{runner:?}"),
        }
    }

    /// Calls it while the runtime ends.
    fn at_the_end_of(runtime: Runtime, call: impl FnOnce() + Send + 'static) {
        struct AtDrop<F: FnOnce()>(Option<F>);
        impl<F: FnOnce()> Drop for AtDrop<F> {
            fn drop(&mut self) {
                self.0.take().unwrap()();
            }
        }
        let at_drop = AtDrop(Some(call));
        drop(runtime.spawn(async move {
            let _at_drop = at_drop;
            pending::<()>().await;
        }));
        drop(runtime);
    }

    /// A key that counts how often it is looked at, and may wish for it each time.
    struct Counted {
        conductor: Arc<Conductor<Counted>>,
        watched: AtomicU64,
        looks: AtomicU64,
        is_greedy: bool,
    }

    impl Counted {
        fn new(conductor: &Arc<Conductor<Self>>, is_greedy: bool) -> Arc<Self> {
            let (watched, looks) = (AtomicU64::new(NEVER), AtomicU64::new(0));
            Arc::new(Self { conductor: conductor.clone(), watched, looks, is_greedy })
        }
    }

    impl Kept for Counted {
        fn is_of(&self, _key: &Key) -> bool {
            false
        }

        fn hash(&self) -> u64 {
            0
        }

        fn watched(&self) -> &AtomicU64 {
            &self.watched
        }

        fn look(self: &Arc<Self>, _now: Instant) {
            self.looks.fetch_add(1, Ordering::Relaxed);
            if self.is_greedy {
                self.conductor.take_on(self);
            }
        }

        fn grows_up(&self) {}

        fn fails(self: &Arc<Self>) {}

        fn is_unserved(self: &Arc<Self>, _why: &io::Error) {}

        fn is_deserted(self: &Arc<Self>) {}
    }

    #[tokio::test]
    async fn what_is_due_does_not_wait_for_what_is_wanted_again_and_again() {
        let conductor = Arc::new(Conductor::new(Background::Runtime));
        let greedy: Vec<_> = (0..TURN_MAX).map(|_| Counted::new(&conductor, true)).collect();
        greedy.iter().for_each(|cell| conductor.take_on(cell));
        let due = Counted::new(&conductor, false);
        conductor.watch(&due, clock::now());
        while greedy[0].looks.load(Ordering::Relaxed) < 4 {
            tokio::task::yield_now().await;
        }
        assert_eq!(due.looks.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_stays_for_the_sweep_that_a_key_has_asked_for_and_ends_with_it() {
        let shared = shared().await;
        let alive = || Handle::current().metrics().num_alive_tasks();
        let begun = clock::now();
        for _ in 0..3 {
            let plan = Plan::new(shared.clone(), LockOptions::default());
            let guard = Acquire::new(plan, Key::new("k")).await.unwrap();
            tokio::task::yield_now().await;
            guard.release().await.unwrap();
            tokio::task::yield_now().await;
            assert_eq!(alive(), 1, "the next key finds it there");
        }
        // The clock goes on as soon as all wait.
        while alive() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(clock::now() <= begun + Duration::from_millis(52));
    }

    #[test]
    fn a_runtime_that_ends_is_asked_for_nothing() {
        let (home, ending) = (runtime(), runtime());
        let shared = home.block_on(shared());
        let (ran, runs) = mpsc::channel();
        let there = shared.clone();
        at_the_end_of(ending, move || {
            there.conductor.sweep_by(clock::now().plus(WITHIN));
            there.conductor.spawn(async move { ran.send(()).unwrap() });
        });
        assert_eq!(task_of(&shared.conductor), home.handle().id());
        home.block_on(tokio::task::yield_now());
        runs.try_recv().expect("it ran at home");
    }

    /// A client that tests share, each with a paused clock of its own. Each leaves a hold and a wait to
    /// the end of its runtime.
    #[test]
    fn a_runtime_that_ends_leaves_the_next_one_a_task_by_its_own_clock() {
        let locks = LockClient::memory();
        for _ in 0..3 {
            let paused =
                Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            paused.block_on(async {
                let held = locks.lock("k").wait(WITHIN).acquire().await.unwrap();
                let waits = locks.lock("k").wait(4 * WITHIN).acquire();
                assert!(waits.await.unwrap_err().is_timeout(), "by the clock that is paused");
                assert!(held.is_held(), "renewed by it, too");
                let waits = tokio::spawn(locks.lock("k").wait(WITHIN).acquire());
                tokio::task::yield_now().await;
                drop(tokio::spawn(async move {
                    let _kept = (held, waits);
                    pending::<()>().await;
                }));
                tokio::task::yield_now().await;
            });
        }
    }

    #[test]
    fn a_guard_that_is_dropped_outside_of_its_runtime_starts_no_thread() {
        let home = runtime();
        let shared = home.block_on(shared());
        home.block_on(async { shared.conductor.sweep_by(clock::now().plus(WITHIN)) });
        assert_eq!(shared.conductor.runtime(false).map(|it| it.id()), Some(home.handle().id()));
        assert_eq!(task_of(&shared.conductor), home.handle().id());
    }

    /// A caller that no runtime polls has the key, waits for it in vain, and waits for its turn.
    fn is_served_without_a_runtime(locks: LockClient, held: Option<LockGuard>) {
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            let held = held.unwrap_or_else(|| wait(locks.lock("k").acquire()).unwrap());
            let soon = locks.lock("k").wait(Duration::from_millis(30));
            assert!(wait(soon.acquire()).unwrap_err().is_timeout());
            drop(held);
            wait(wait(locks.lock("k").wait(WITHIN).acquire()).unwrap().release()).unwrap();
            done.send(()).unwrap();
        });
        is_done.recv_timeout(WITHIN).expect("no panic, and no wait without an end");
    }

    #[test]
    fn a_thread_is_served_though_the_runtime_of_its_client_is_over() {
        let home = runtime();
        let locks = home.block_on(LockClient::connect("memory:")).unwrap();
        drop(home);
        is_served_without_a_runtime(locks, None);
    }

    #[test]
    fn a_thread_is_served_though_nobody_drives_the_runtime_of_its_client() {
        let home = runtime();
        let locks = home.block_on(LockClient::connect("memory:")).unwrap();
        is_served_without_a_runtime(locks.clone(), None);
        // Also where the task of the conductor is in there.
        let locks = home.block_on(LockClient::connect("memory:")).unwrap();
        let held = home.block_on(locks.lock("k").acquire()).unwrap();
        assert_eq!(home.metrics().num_alive_tasks(), 1, "it is to sweep the key up");
        is_served_without_a_runtime(locks, Some(held));
        // Which learns that it was relieved.
        home.block_on(async {
            while home.metrics().num_alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
        });
    }

    /// A store's thread wakes whoever waits for an answer, and that may call the conductor.
    #[test]
    fn a_task_of_the_application_is_not_begun_on_a_thread_of_a_store() {
        let runtime = runtime();
        let shared = runtime.block_on(shared());
        let home = Home::start("test").unwrap();
        let there = shared.clone();
        let called = home.spawn(async move { there.conductor.sweep_by(clock::now()) });
        futures_executor::block_on(called).unwrap();
        assert_eq!(task_of(&shared.conductor), runtime.handle().id());
    }
}
