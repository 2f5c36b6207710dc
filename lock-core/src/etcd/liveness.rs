//! The life of a session: until when it surely lives, whether it is over, and which claims have a
//! key in it.

use std::collections::BTreeMap;
use std::sync::{Mutex, Weak};
use std::time::Instant;

use tokio::sync::{Notify, watch};

use super::clock::SessionClock;
use super::lock_key::LockKey;
use crate::ground::{clock, lock};

/// Names one entry of [`Liveness`]: when its claim is to be looked at, and a number of its own.
pub(super) type Entry = (Instant, u64);

#[derive(Debug)]
pub(super) struct Liveness {
    clock: watch::Sender<SessionClock>,
    is_over: watch::Sender<bool>,
    claims: Mutex<Claims>,
    /// Makes the keeper look again.
    pub(super) poke: Notify,
}

/// The claims with a key in this session, by the end of their lease.
#[derive(Debug)]
struct Claims {
    due: BTreeMap<Entry, Weak<LockKey>>,
    entered: u64,
    /// When the keeper looks next.
    wakes_at: Instant,
}

impl Liveness {
    pub(super) fn new(clock: SessionClock) -> Self {
        let (due, wakes_at) = (BTreeMap::new(), clock.beat_at());
        Self {
            clock: watch::Sender::new(clock),
            is_over: watch::Sender::new(false),
            claims: Mutex::new(Claims { due, entered: 0, wakes_at }),
            poke: Notify::new(),
        }
    }

    pub(super) fn clock(&self) -> SessionClock {
        *self.clock.borrow()
    }

    /// A keepalive that was sent at `sent` is proved.
    pub(super) fn proved(&self, sent: Instant) {
        self.clock.send_modify(|clock| clock.proved(sent));
    }

    /// Waits until the session is confirmed; `false` if it ends.
    pub(super) async fn confirmed(&self) -> bool {
        let (mut clock, mut is_over) = (self.clock.subscribe(), self.is_over.subscribe());
        let good = |clock: &SessionClock| clock.is_confirmed(clock::now());
        tokio::select! {
            biased;
            _ = is_over.wait_for(|over| *over) => false,
            confirmed = clock.wait_for(good) => confirmed.is_ok(),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        *self.is_over.borrow()
    }

    /// The session is over: nothing that was held in it is held any more. `false` if it was over
    /// before.
    pub(super) fn end(&self) -> bool {
        let is_news = !self.is_over.send_replace(true);
        if is_news {
            self.poke.notify_one();
        }
        is_news
    }

    /// A claim has, or may have, a key in this session until `until`.
    pub(super) fn enter(&self, place: Weak<LockKey>, until: Instant) -> Entry {
        let mut claims = lock(&self.claims);
        claims.entered = claims.entered.wrapping_add(1);
        let entry = (until, claims.entered);
        claims.due.insert(entry, place);
        let is_early = until < claims.wakes_at;
        drop(claims);
        if is_early {
            self.poke.notify_one();
        }
        entry
    }

    pub(super) fn leave(&self, entry: Entry) {
        lock(&self.claims).due.remove(&entry);
    }

    /// Takes out the claims whose lease was to end by `now`.
    pub(super) fn due(&self, now: Instant) -> Vec<Weak<LockKey>> {
        let mut claims = lock(&self.claims);
        let mut due = Vec::new();
        while let Some(first) = claims.due.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        due
    }

    /// When the keeper must look again: at `beat_at`, or when a lease ends before that.
    pub(super) fn wakes_at(&self, beat_at: Instant) -> Instant {
        let mut claims = lock(&self.claims);
        let lease_end = claims.due.first_key_value().map(|((until, _), _)| *until);
        claims.wakes_at = lease_end.map_or(beat_at, |until| until.min(beat_at));
        claims.wakes_at
    }
}
