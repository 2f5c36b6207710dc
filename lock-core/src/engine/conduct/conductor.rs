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
//! does to its runtimes holds it up. Or it is a task of the caller's runtime, see [`Background`].

use std::cmp::Ordering as Order;
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use crate::ground::{Plus as _, background, clock, lock, own_thread};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

use super::registry::Registry;
use super::sweep::{NEVER, Sweep};
use super::{Kept, foreign};
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
    poked: Arc<Notify>,
}

#[derive(Debug)]
struct Work<K> {
    runner: Runner,
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
            poked: Arc::default(),
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
            return true;
        }
        let here = Handle::try_current().ok().map(|here| here.id());
        match &self.work().runner {
            Runner::Thread(_) => true,
            Runner::Task(runtime) => here == Some(runtime.id()),
            Runner::Nowhere => false,
        }
    }

    fn is_gone(&self) {
        let mut work = self.work();
        (work.runner, work.is_turning) = (Runner::Nowhere, false);
        let wanted = std::mem::take(&mut work.wanted);
        drop((work, wanted));
        self.sweep.forget();
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
        let is_first = work.due.first().is_none_or(|first| at < first.at);
        cell.watched().store(at, Ordering::Relaxed);
        work.due.insert(Due { at, cell: cell.clone() });
        drop(work);
        if is_first {
            self.begin_for(cell);
        }
    }

    /// A key is not busy any more.
    pub(in crate::engine) fn forget(&self, cell: &Arc<K>) {
        let mut work = self.work();
        work.unwatch(cell);
        if matches!(work.runner, Runner::Task(_)) && !work.is_turning {
            // It may end.
            self.poked.notify_one();
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
            return self.start(work).map(drop);
        }
        let is_awake = work.is_turning;
        drop(work);
        if !is_awake {
            self.poked.notify_one();
        }
        Ok(())
    }

    fn start(self: &Arc<Self>, mut work: MutexGuard<'_, Work<K>>) -> io::Result<Handle> {
        // A store's own thread wakes whoever waits for an answer. Nothing of an application's is to
        // be done there.
        let here = || {
            let here = clock::runtime().filter(|_| !own_thread::is_here());
            here.or_else(|| self.home.clone())
        };
        let running = |stage| Running { conductor: Arc::downgrade(self), stage };
        let poked = self.poked.clone();
        if let Some(runtime) = here().filter(|_| self.on == Background::Runtime) {
            work.runner = Runner::Task(runtime.clone());
            // A runtime that is ending drops the task here and now, which ends in `Running`.
            drop(work);
            drop(runtime.spawn(running(Stage::New).conduct(poked)));
            return Ok(runtime);
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        // Without a thread it is dropped here, under the mutex.
        let running = running(Stage::Unplaced);
        let conduct = move || async move {
            let _here = background::enter();
            running.conduct(poked).await;
        };
        let handle = own_thread::start("lock-conductor", runtime, conduct)?;
        work.runner = Runner::Thread(handle.clone());
        self.on_thread.store(true, Ordering::Release);
        Ok(handle)
    }

    /// A runtime for what is polled outside of any; `None` where there is none to be had.
    pub(in crate::engine) fn runtime(self: &Arc<Self>) -> Option<Handle> {
        let work = self.work();
        match &work.runner {
            Runner::Thread(runtime) | Runner::Task(runtime) => Some(runtime.clone()),
            Runner::Nowhere if self.home.is_some() && self.is_inline() => self.home.clone(),
            Runner::Nowhere => self.start(work).ok(),
        }
    }

    /// Runs what no key waits for.
    pub(in crate::engine) fn spawn(
        self: &Arc<Self>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let here = clock::runtime().filter(|_| self.is_here());
        // Without any runtime the claim ends with its lease.
        if let Some(runtime) = here.or_else(|| self.runtime()) {
            drop(runtime.spawn(work));
        }
    }

    /// Looks at what is due; says when to look again, `None` if there is nothing to wait for.
    fn turn(&self) -> Option<Instant> {
        let now = clock::now();
        let nanos = self.nanos(now);
        let mut work = self.work();
        let mut cells = std::mem::take(&mut work.wanted);
        while cells.len() < TURN_MAX
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
        work.is_turning = false;
        if !work.wanted.is_empty() {
            return Some(now);
        }
        let due = work.due.first().map_or(NEVER, |first| first.at);
        self.instant(due.min(self.sweep.at()))
    }

    /// Whether there is nothing left to do for a task, which ends with that; a thread ends with its
    /// client.
    fn may_end(&self) -> bool {
        let mut work = self.work();
        if !matches!(work.runner, Runner::Task(_)) || !work.wanted.is_empty() {
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
        Self { runner, wanted, due, is_turning: false }
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
        self.poked.notify_one();
    }
}

/// The conductor at work.
struct Running<K: Kept> {
    conductor: Weak<Conductor<K>>,
    stage: Stage,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// There is no thread for it yet.
    Unplaced,
    /// A task that was not polled yet.
    New,
    AtWork,
    Ended,
}

impl<K: Kept> Running<K> {
    async fn conduct(mut self, poked: Arc<Notify>) {
        loop {
            let Some(conductor) = self.conductor.upgrade() else { break };
            self.stage = Stage::AtWork;
            let next = conductor.turn();
            if conductor.may_end() {
                break;
            }
            // The client ends with its last user, who may be this.
            drop(conductor);
            match next {
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = poked.notified() => {}
                        () = clock::sleep_until(at) => {}
                    }
                }
                None => poked.notified().await,
            }
            // Answers that came meanwhile have their turn.
            tokio::task::yield_now().await;
        }
        self.stage = Stage::Ended;
    }
}

impl<K: Kept> Drop for Running<K> {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Unplaced | Stage::Ended) {
            return;
        }
        let Some(conductor) = self.conductor.upgrade() else { return };
        // The runtime that it was a task of is gone.
        conductor.is_gone();
        if self.stage == Stage::AtWork {
            for cell in conductor.registry.cells() {
                cell.is_deserted();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::io::Home;
    use crate::engine::Shared;
    use crate::memory::Memory;
    use crate::options::LockOptions;

    /// A store's thread wakes whoever waits for an answer, and that may call the conductor.
    #[test]
    fn a_task_of_the_application_is_not_begun_on_a_thread_of_a_store() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let shared = runtime.block_on(async {
            let (backend, on) = (Arc::new(Memory::new()), Background::Runtime);
            Arc::new(Shared::new(backend, LockOptions::default(), 1, Some(on), None))
        });
        let home = Home::start("test").unwrap();
        let there = shared.clone();
        let called = home.spawn(async move { there.conductor.sweep_by(clock::now()) });
        futures_executor::block_on(called).unwrap();
        let at = match &shared.conductor.work().runner {
            Runner::Task(at) => at.id(),
            runner => panic!("{runner:?}"),
        };
        assert_eq!(at, runtime.handle().id());
    }
}
