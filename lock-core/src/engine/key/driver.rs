//! The driver of a busy key talks to the store. It only does I/O: the cohort decides, the driver
//! asks the store and reports. It has a lane for each lane of the cohort: one, but for permits.
//!
//! It lives in the key's cell and is no task. Whoever waits for the key polls it, and the conductor
//! polls it where nobody does. Requests run to their end whatever becomes of the callers. While one
//! is under way, the driver goes on to watch the lease, the waits and the pokes. So a store that
//! hangs holds up nothing that the clock decides.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use super::beside::Others;
use super::host::Host;
use super::lane::{Lane, Turned};
use crate::backend::{Fault, FaultKind};
use crate::engine::conduct::ROUNDS_MAX;

/// The requests of a busy key to the store. A future but for its name: what is always
/// there is the cell's, and is lent to it at each poll.
pub(super) struct Driver<K> {
    first: Lane,
    /// From the second permit on. On the heap, as most keys have none.
    others: Option<Box<Others<K>>>,
}

impl<K> fmt::Debug for Driver<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

/// Why a key is served no more.
pub(in crate::engine) fn gone() -> Fault {
    let why = "what served this lock is gone: it panicked, or its runtime has ended";
    Fault::new(FaultKind::Transient, why)
}

impl<K: Host> Driver<K> {
    pub(super) fn new() -> Self {
        Self { first: Lane::default(), others: None }
    }

    /// Drives its key, `cell`, until that is idle. `now` is the time of this poll. It is read once
    /// a poll, as nothing in between waits.
    pub(super) fn poll(&mut self, cell: &Arc<K>, now: Instant, cx: &mut Context<'_>) -> Poll<()> {
        for round in 0..ROUNDS_MAX {
            let heard = self.hear(cell, now, cx);
            if !heard && round > 0 {
                return Poll::Pending;
            }
            if !self.turn(cell, now) {
                return Poll::Ready(());
            }
            if !heard && !self.is_fresh() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether the claim of any lane leaves.
    fn leaves(&self) -> bool {
        self.first.leaves() || self.others.as_ref().is_some_and(|others| others.leaves())
    }

    fn is_fresh(&self) -> bool {
        self.first.is_fresh() || self.others.as_ref().is_some_and(|others| others.is_fresh())
    }

    /// Answers and pushes; whether there were any.
    fn hear(&mut self, cell: &Arc<K>, now: Instant, cx: &mut Context<'_>) -> bool {
        let some = self.first.look(cell, 0, now, cx);
        self.others.as_mut().is_some_and(|others| others.hear(cell, now)) || some
    }

    /// Does what is to be done now; `false` where nothing is left to do. Beside the first lane, it
    /// looks at those in which something has changed.
    fn turn(&mut self, cell: &Arc<K>, now: Instant) -> bool {
        let (mut at, mut first) = (0, Turned::Idle);
        loop {
            let turned = match at {
                0 => {
                    let leaves = self.others.is_some() && self.leaves();
                    self.first.turn(cell, 0, now, leaves)
                }
                at => {
                    let leaves = self.leaves();
                    self.others.get_or_insert_with(|| Others::new(cell)).turn(cell, at, now, leaves)
                }
            };
            match turned {
                Turned::TakenOn => return true,
                turned if at == 0 => first = turned,
                Turned::Rests(_) | Turned::Idle => {}
            }
            if let Some(next) = self.next_lane(cell, now) {
                at = next;
                continue;
            }
            let until = match first {
                Turned::Rests(until) => until,
                _ if self.is_busy_beside(cell) => None,
                _ if cell.retires() => return false,
                _ => {
                    self.others = None;
                    at = 0;
                    continue;
                }
            };
            let beside = self.others.as_mut().and_then(|others| others.rest(cell, now));
            cell.rests(now, until.into_iter().chain(beside).min());
            return true;
        }
    }

    fn is_busy_beside(&self, cell: &Arc<K>) -> bool {
        let is_busy = |others: &Others<K>| others.leaves() || cell.cohort().opened() > 1;
        self.others.as_deref().is_some_and(is_busy)
    }

    /// The next lane in which there is something to do.
    #[inline]
    fn next_lane(&self, cell: &Arc<K>, now: Instant) -> Option<usize> {
        if self.others.is_none() && !self.first.is_permit() {
            return None;
        }
        let leaves = self.leaves();
        cell.cohort().next_lane(now, leaves)
    }
}
