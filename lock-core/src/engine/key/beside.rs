//! The lanes of a driver beside the first, one for each further permit.
//!
//! Each has a waker of its own, which notes who rang. So an answer costs a poll of the lane that
//! it is for, however many others wait.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Waker};
use std::time::Instant;

use futures_util::task::{ArcWake, waker};
use tokio::runtime::{Handle, Id};

use super::host::Host;
use super::lane::{Lane, Turned};
use crate::ground::{background, lock};
use crate::proto::effort;

/// The lanes beside the first: the first of them is number 1.
pub(super) struct Others<K> {
    lanes: Vec<Beside<K>>,
    bell: Arc<Bell<K>>,
    /// To be polled, whether they rang or not.
    fresh: BTreeSet<usize>,
    /// Polled last by a caller, in the runtime `home`, whose timers may not fire for long.
    abroad: BTreeSet<usize>,
    home: Option<Id>,
    /// The claims of so many leave.
    leaving: usize,
    is_grown_up: bool,
}

struct Beside<K> {
    lane: Lane,
    ring: Arc<Ring<K>>,
    waker: Waker,
}

/// Notes which lanes of a key are to be polled.
struct Bell<K> {
    cell: Weak<K>,
    rang: Mutex<Vec<usize>>,
}

/// That of one lane.
struct Ring<K> {
    at: usize,
    /// It is noted, and was not polled since.
    rang: AtomicBool,
    bell: Arc<Bell<K>>,
}

impl<K: Host> ArcWake for Ring<K> {
    fn wake_by_ref(ring: &Arc<Self>) {
        if !ring.rang.swap(true, Ordering::AcqRel) {
            lock(&ring.bell.rang).push(ring.at);
        }
        // Behind the note, so whoever polls for it finds that.
        if let Some(cell) = ring.bell.cell.upgrade() {
            K::wake_by_ref(&cell);
        }
    }
}

impl<K: Host> Others<K> {
    pub(super) fn new(cell: &Arc<K>) -> Box<Self> {
        let cell = Arc::downgrade(cell);
        Box::new(Self {
            lanes: Vec::new(),
            bell: Arc::new(Bell { cell, rang: Mutex::default() }),
            fresh: BTreeSet::new(),
            abroad: BTreeSet::new(),
            home: None,
            leaving: 0,
            is_grown_up: false,
        })
    }

    pub(super) fn leaves(&self) -> bool {
        self.leaving > 0
    }

    /// Something was begun that was not polled yet.
    pub(super) fn is_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Answers and pushes; whether there were any.
    pub(super) fn hear(&mut self, cell: &Arc<K>, now: Instant) -> bool {
        let grows_up = cell.is_grown_up() && !std::mem::replace(&mut self.is_grown_up, true);
        if grows_up {
            // All listen from now on.
            cell.cohort().look_at_deaf();
        }
        let by_caller = !background::is_here();
        let here = Handle::try_current().ok().map(|here| here.id()).filter(|_| by_caller);
        let mut due = std::mem::take(&mut self.fresh);
        if here != self.home || !by_caller || grows_up {
            // A timer that was made in another runtime is made anew by this poll. So is one that
            // was not made at all, as the conductor was to come by.
            due.append(&mut self.abroad);
            self.home = here;
        }
        due.extend(lock(&self.bell.rang).drain(..));
        let mut some = false;
        for at in due {
            let Some(Beside { lane, ring, waker }) = self.lanes.get_mut(at - 1) else { continue };
            effort::spend();
            // Before the poll: who rings during it is heard by the next. A swap, as a store alone
            // may take effect behind what the poll reads: a ring would be lost between the two.
            ring.rang.swap(false, Ordering::AcqRel);
            let left = lane.leaves();
            if lane.look(cell, at, now, &mut Context::from_waker(waker)) {
                some = true;
                // There may be more.
                self.fresh.insert(at);
            } else if by_caller && lane.is_waiting() {
                self.abroad.insert(at);
            }
            self.leaving -= usize::from(left && !lane.leaves());
        }
        some
    }

    /// Does what is to be done now in a lane.
    pub(super) fn turn(&mut self, cell: &Arc<K>, at: usize, now: Instant, leaves: bool) -> Turned {
        while self.lanes.len() < at {
            self.add();
        }
        let lane = &mut self.lanes[at - 1].lane;
        let left = lane.leaves();
        let turn = lane.turn(cell, at, now, leaves);
        self.leaving += usize::from(!left && lane.leaves());
        if lane.is_fresh() {
            self.fresh.insert(at);
        }
        turn
    }

    fn add(&mut self) {
        let (at, bell) = (self.lanes.len() + 1, self.bell.clone());
        let ring = Arc::new(Ring { at, rang: AtomicBool::new(false), bell });
        let waker = waker(ring.clone());
        self.lanes.push(Beside { lane: Lane::default(), ring, waker });
    }

    /// Nothing is to be done now; when there is.
    pub(super) fn rest(&mut self, cell: &Arc<K>, now: Instant) -> Option<Instant> {
        let cohort = cell.cohort();
        let opened = cohort.opened();
        while self.lanes.len() >= opened && self.lanes.pop_if(|last| last.lane.is_over()).is_some()
        {
        }
        cohort.wakes_at(now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;

    use crate::LockClient;
    use crate::proto::effort::spent;

    type Test = Result<(), Box<dyn std::error::Error>>;

    /// The polls that `many` permits cost which are had, are left for so long, are watched, and
    /// are given up at once.
    async fn permits(many: u32, left: Duration) -> u64 {
        let locks = LockClient::memory();
        let before = spent();
        let of = |_| locks.lock("k").permits(many).acquire();
        let permits = join_all((0..many).map(of)).await;
        let permits: Vec<_> = permits.into_iter().map(|it| it.expect("a free permit")).collect();
        tokio::time::sleep(left).await;
        assert_eq!(locks.busy_keys()[0].guards.len(), many as usize);
        let mut lost: Vec<_> = permits.iter().map(|permit| Box::pin(permit.lost())).collect();
        for lost in &mut lost {
            assert!(futures_util::poll!(lost).is_pending());
        }
        let released = join_all(permits.into_iter().map(|permit| permit.release())).await;
        assert!(released.into_iter().all(|released| released.is_ok()));
        drop(lost);
        assert_eq!(locks.stats().keys, 0, "nothing is left");
        spent() - before
    }

    #[tokio::test(start_paused = true)]
    async fn what_permits_cost_grows_no_faster_than_their_number() {
        for left in [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(25)] {
            let (few, many) = (permits(64, left).await, permits(1_024, left).await);
            assert!(many <= 17 * few, "{left:?}: {few} for 64, {many} for 1024");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_for_permits_cost_no_more_for_others_who_wait() -> Test {
        async fn looked_at(many: u32) -> u64 {
            let (locks, before) = (LockClient::memory(), spent());
            let one = || async {
                let permit = locks.lock("k").permits(many / 2).acquire().await.expect("its turn");
                tokio::time::sleep(Duration::from_millis(100)).await;
                permit.release().await.expect("it is held");
            };
            join_all((0..many).map(|_| one())).await;
            spent() - before
        }
        let (few, many) = (looked_at(64).await, looked_at(1_024).await);
        assert!(many <= 17 * few, "{few} for 64, {many} for 1024");
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn what_watched_readers_cost_grows_no_faster_than_their_number() -> Test {
        async fn looked_at(many: usize, limit: Option<Duration>) -> u64 {
            let (locks, before) = (LockClient::memory(), spent());
            let mut readers = Vec::new();
            for _ in 0..many {
                let lock = locks.lock("k").shared();
                let lock = if let Some(limit) = limit { lock.hold_limit(limit) } else { lock };
                readers.push(lock.acquire().await.expect("beside the others"));
            }
            let mut lost: Vec<_> = readers.iter().map(|reader| Box::pin(reader.lost())).collect();
            for lost in &mut lost {
                assert!(futures_util::poll!(lost).is_pending());
            }
            // The first ones go first, and the last ones behind them.
            let rest = readers.split_off(many / 2);
            for reader in readers.into_iter().chain(rest.into_iter().rev()) {
                reader.release().await.expect("it is held");
            }
            drop(lost);
            assert_eq!(locks.stats().keys, 0, "nothing is left");
            spent() - before
        }
        for limit in [None, Some(Duration::from_secs(60))] {
            let (few, many) = (looked_at(64, limit).await, looked_at(1_024, limit).await);
            assert!(many <= 17 * few, "{limit:?}: {few} for 64, {many} for 1024");
        }
        Ok(())
    }
}
