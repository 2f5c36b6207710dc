//! What is known of a session's life: until when it surely lives, whether it is over, and which
//! claims depend on it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use tokio::sync::{Notify, watch};

use super::seat::Seat;
use crate::engine::clock;
use crate::proto::SessionClock;

/// Names one entry of [`Life`]: when its claim is to be looked at, and a number of its own.
pub(super) type Entry = (Instant, u64);

/// See the module.
#[derive(Debug)]
pub(super) struct Life {
    clock: watch::Sender<SessionClock>,
    over: watch::Sender<bool>,
    seats: Mutex<Seats>,
    /// Makes the keeper look again.
    pub(super) poke: Notify,
}

/// The claims with a node in this session, by the end of their lease.
#[derive(Debug)]
struct Seats {
    due: BTreeMap<Entry, Weak<Seat>>,
    entered: u64,
    /// When the keeper looks next.
    wakes_at: Instant,
}

impl Life {
    pub(super) fn new(clock: SessionClock) -> Self {
        let seats = Seats { due: BTreeMap::new(), entered: 0, wakes_at: clock.beat_at() };
        Self {
            clock: watch::Sender::new(clock),
            over: watch::Sender::new(false),
            seats: Mutex::new(seats),
            poke: Notify::new(),
        }
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clock(&self) -> SessionClock {
        *self.clock.borrow()
    }

    /// A write that was sent at `sent` was answered.
    pub(super) fn proved(&self, sent: Instant) {
        self.clock.send_modify(|clock| clock.proved(sent));
    }

    /// Waits until the session is confirmed again, or over; `false` if neither comes in time.
    pub(super) async fn confirmed(&self, until: Instant) -> bool {
        let mut clock = self.clock.subscribe();
        let good = |clock: &SessionClock| !clock.is_overdue(clock::now());
        matches!(tokio::time::timeout_at(until.into(), clock.wait_for(good)).await, Ok(Ok(_)))
    }

    pub(super) fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// The session is over: nothing that was held in it is held any more.
    pub(super) fn end(&self) {
        if !self.over.send_replace(true) {
            self.poke.notify_one();
        }
    }

    /// A claim has, or may have, a node in this session until `until`.
    pub(super) fn enter(&self, seat: Weak<Seat>, until: Instant) -> Entry {
        let mut seats = self.seats();
        seats.entered += 1;
        let entry = (until, seats.entered);
        seats.due.insert(entry, seat);
        let early = until < seats.wakes_at;
        drop(seats);
        if early {
            self.poke.notify_one();
        }
        entry
    }

    pub(super) fn leave(&self, entry: Entry) {
        self.seats().due.remove(&entry);
    }

    /// Takes out the claims whose lease was to end by `now`.
    pub(super) fn due(&self, now: Instant) -> Vec<Weak<Seat>> {
        let mut seats = self.seats();
        let mut due = Vec::new();
        while let Some(first) = seats.due.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        due
    }

    /// Whether any claim depends on the session.
    pub(super) fn is_needed(&self) -> bool {
        !self.seats().due.is_empty()
    }

    /// When the keeper must look again: at `beat_at`, or when a lease ends before that.
    pub(super) fn wakes_at(&self, beat_at: Instant) -> Instant {
        let mut seats = self.seats();
        let lease_end = seats.due.first_key_value().map(|((until, _), _)| *until);
        seats.wakes_at = lease_end.map_or(beat_at, |until| until.min(beat_at));
        seats.wakes_at
    }
}
