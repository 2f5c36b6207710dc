//! When this process did not come to run: it was stopped, or the machine was busy.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use tokio::time::sleep;

use crate::clock::now_ns;

/// How long the watching thread sleeps at a time.
const TICK: Duration = Duration::from_millis(5);

/// How many are remembered: more than come to be within one wait.
const STALLS_MAX: usize = 1_024;

/// The stalls of the last seconds, seen by a thread that sleeps and looks how late it wakes.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    seen: Mutex<VecDeque<(u64, u64)>>,
    looked_ns: AtomicU64,
}

impl Stalls {
    /// Begins to watch; ends with the last clone.
    pub(super) fn watch() -> Arc<Self> {
        let stalls = Arc::new(Self::default());
        let watched = Arc::downgrade(&stalls);
        thread::spawn(move || look(&watched));
        stalls
    }

    /// For how many of these nanoseconds it did not run.
    pub(super) async fn between(&self, from_ns: u64, until_ns: u64) -> u64 {
        while self.looked_ns.load(Ordering::Acquire) < until_ns {
            sleep(TICK).await;
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let part = |(from, until): &(u64, u64)| {
            (*until).min(until_ns).saturating_sub((*from).max(from_ns))
        };
        seen.iter().map(part).sum()
    }
}

fn look(watched: &Weak<Stalls>) {
    let tick_ns = u64::try_from(TICK.as_nanos()).expect("a short time");
    loop {
        let due_ns = now_ns() + tick_ns;
        thread::sleep(TICK);
        let now_ns = now_ns();
        let Some(stalls) = watched.upgrade() else { return };
        // Less is what timers take on an idle machine.
        if now_ns > due_ns + 1_000_000 {
            let mut seen = stalls.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.len() == STALLS_MAX {
                seen.pop_front();
            }
            seen.push_back((due_ns, now_ns));
        }
        stalls.looked_ns.store(now_ns, Ordering::Release);
    }
}
