//! State that all keys of one client share.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Sleep;

use super::cell::KeyCell;
use super::closed::Closed;
use super::conductor::Conductor;
use super::foreign;
use super::registry::Registry;
use crate::backend::{Capabilities, DynBackend, Fault, FaultKind};
use crate::ground::{Plus as _, background, clock, lock};
use crate::options::{Background, LockOptions};
use crate::proto::{Counters, Effects};
use crate::view::BusyKey;

/// State that the handles, guards and keys of one client share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn DynBackend>,
    pub(crate) capabilities: Capabilities,
    pub(crate) defaults: LockOptions,
    pub(crate) waiters_per_key_max: usize,
    pub(super) registry: Registry,
    pub(super) conductor: Conductor,
    closed: AtomicBool,
    /// The last handle of the client was dropped.
    forsaken: AtomicBool,
    /// Poked once, after `closed` was set. A flag of its own is what every acquire reads.
    closing: Arc<Notify>,
    /// Counts of keys that are idle again.
    totals: Mutex<Counters>,
    /// Withdrawals under way in the background.
    leaving: AtomicUsize,
    /// Poked when a key or a background withdrawal is done.
    quiet: Notify,
}

impl Shared {
    pub(crate) fn new(
        backend: Arc<dyn DynBackend>,
        defaults: LockOptions,
        waiters_per_key_max: usize,
        background: Option<Background>,
    ) -> Self {
        let capabilities = backend.capabilities();
        let usual = if capabilities.in_process { Background::Runtime } else { Background::Thread };
        Self {
            conductor: Conductor::new(background.unwrap_or(usual)),
            capabilities,
            backend,
            defaults,
            waiters_per_key_max,
            registry: Registry::new(),
            closed: AtomicBool::new(false),
            forsaken: AtomicBool::new(false),
            closing: Arc::default(),
            totals: Mutex::new(Counters::default()),
            leaving: AtomicUsize::new(0),
            quiet: Notify::new(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The runtime that whoever polls without one is lent, for timers and connections: the
    /// conductor's. `None` where there is one here.
    pub(super) fn lent_runtime(self: &Arc<Self>) -> Result<Option<Handle>, Fault> {
        if background::is_here() || clock::runtime().is_some() {
            return Ok(None);
        }
        self.conductor.runtime(self).map(Some).ok_or_else(|| {
            let what =
                "there is no runtime with timers here, and no thread for one could be started";
            Fault::new(FaultKind::Transient, what)
        })
    }

    /// A timer that fires for a caller on another executor too; none without any runtime.
    pub(super) fn sleep_until(self: &Arc<Self>, at: Instant) -> Option<Pin<Box<Sleep>>> {
        if clock::runtime().is_some() {
            return Some(Box::pin(clock::sleep_until(at)));
        }
        let runtime = self.conductor.runtime(self)?;
        let _timers = runtime.enter();
        Some(Box::pin(clock::sleep_until(at)))
    }

    pub(super) fn retired(&self, counters: Counters) {
        let mut totals = lock(&self.totals);
        *totals = sum(*totals, counters);
        drop(totals);
        foreign::call(|| self.quiet.notify_waiters());
    }

    /// Something leaves the store in the background, as long as this is there.
    pub(super) fn leave(self: &Arc<Self>) -> Leaving {
        self.leaving.fetch_add(1, Ordering::AcqRel);
        Leaving(self.clone())
    }

    /// The counts so far, the busy keys, their waiters and their holders.
    pub(crate) fn counters(&self) -> (Counters, usize, usize, usize) {
        let mut total = *lock(&self.totals);
        let (mut waiters, mut held) = (0, 0);
        let cells = self.registry.cells();
        for cell in &cells {
            let cohort = cell.cohort();
            total = sum(total, cohort.counters());
            waiters += cohort.waiters();
            held += cohort.held_here();
        }
        (total, cells.len(), waiters, held)
    }

    /// The busy keys, in no order.
    pub(crate) fn busy(&self) -> Vec<BusyKey> {
        let cells = self.registry.cells();
        let (candidates, cells): (Vec<_>, Vec<_>) =
            cells.iter().partition(|cell| cell.is_candidate());
        let mut busy: Vec<_> = cells.iter().map(|cell| cell.busy()).collect();
        // Those who stand for one election have a cell each, and are few.
        for candidate in candidates {
            match busy.iter_mut().find(|busy| busy.key == *candidate.key()) {
                Some(busy) => busy.add(candidate.busy()),
                None => busy.push(candidate.busy()),
            }
        }
        busy
    }

    /// Refuses new claims, and ends all waits.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.closing.notify_waiters();
        for cell in self.registry.cells() {
            let mut fx = Effects::none();
            cell.cohort().close(&mut fx);
            cell.settle(fx);
        }
    }

    pub(super) fn is_forsaken(&self) -> bool {
        self.forsaken.load(Ordering::Acquire)
    }

    /// Gives back what lingers, now and from now on.
    pub(crate) fn forsake(&self) {
        self.forsaken.store(true, Ordering::Release);
        for cell in self.registry.cells() {
            let mut fx = Effects::none();
            cell.cohort().forsake(&mut fx);
            cell.settle(fx);
        }
    }

    /// Resolves when it is closed.
    pub(crate) fn closed(&self) -> Closed {
        // It has what is poked from here on, so a `close` meanwhile is seen by the one or the
        // other.
        let told = self.closing.clone().notified_owned();
        Closed::new((!self.is_closed()).then_some(told))
    }

    /// Ends all holds, and says how many there were.
    pub(crate) fn abandon(&self) -> usize {
        let mut abandoned = 0;
        for cell in self.registry.cells() {
            let mut fx = Effects::none();
            abandoned += cell.cohort().abandon(clock::now(), &mut fx);
            cell.settle(fx);
        }
        abandoned
    }

    /// Waits until no key is busy and no withdrawal is under way, at most `within`.
    pub(crate) async fn quiet(self: &Arc<Self>, within: Duration) -> bool {
        let wait = async {
            loop {
                let mut poked = std::pin::pin!(self.quiet.notified());
                poked.as_mut().enable();
                if self.registry.is_empty() && self.leaving.load(Ordering::Acquire) == 0 {
                    return;
                }
                poked.await;
            }
        };
        let Some(timer) = self.sleep_until(clock::now().plus(within)) else { return false };
        tokio::select! {
            biased;
            () = wait => true,
            () = timer => false,
        }
    }

    pub(super) fn retire(&self, cell: &Arc<KeyCell>, by_driver: bool) -> bool {
        match self.registry.retire(cell, by_driver) {
            Some(counters) => {
                self.conductor.forget(cell);
                cell.retired();
                self.retired(counters);
                true
            }
            None => false,
        }
    }
}

/// Counts itself out even if its runtime drops it.
pub(super) struct Leaving(Arc<Shared>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.leaving.fetch_sub(1, Ordering::AcqRel);
        foreign::call(|| self.0.quiet.notify_waiters());
    }
}

fn sum(a: Counters, b: Counters) -> Counters {
    Counters {
        acquired: a.acquired + b.acquired,
        handoffs_local: a.handoffs_local + b.handoffs_local,
        handoffs_remote: a.handoffs_remote + b.handoffs_remote,
        timeouts: a.timeouts + b.timeouts,
        refused: a.refused + b.refused,
        lost: a.lost + b.lost,
        renewals: a.renewals + b.renewals,
    }
}
