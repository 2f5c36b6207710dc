//! The leases of claims within a session that outlives them.
//!
//! At a store of sessions, what a claim has there stays as long as the session, which all claims of a
//! client share. So the client itself takes away what was not renewed in time. [`Leases`] has the claims
//! of one session by the ends of their leases, for the task that keeps it. A [`Tenure`] is what the place
//! of one claim knows of itself.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use tokio::sync::Notify;

use crate::ground::lock;

/// The place of a claim in a session, until its lease ends.
pub(crate) trait Leased: Debug + Send + Sync + 'static {
    /// Gives the place up if its lease is over, else comes back at its end.
    fn expire(self: Arc<Self>, now: Instant);
}

/// Names one entry of [`Leases`]: when its claim is to be looked at, and a number of its own.
type Entry = (Instant, u64);

/// The claims with a place in a session, by the ends of their leases.
#[derive(Debug)]
pub(crate) struct Leases {
    book: Mutex<Book>,
    /// Makes the keeper look again.
    poke: Notify,
}

#[derive(Debug)]
struct Book {
    due: BTreeMap<Entry, Weak<dyn Leased>>,
    entered: u64,
    /// The time when the keeper looks next.
    wakes_at: Instant,
}

impl Leases {
    /// None yet. The keeper looks first at this time.
    pub(crate) fn new(wakes_at: Instant) -> Self {
        let book = Book { due: BTreeMap::new(), entered: 0, wakes_at };
        Self { book: Mutex::new(book), poke: Notify::new() }
    }

    fn enter(&self, place: Weak<dyn Leased>, until: Instant) -> Entry {
        let mut book = lock(&self.book);
        book.entered += 1;
        let entry = (until, book.entered);
        book.due.insert(entry, place);
        let is_early = until < book.wakes_at;
        drop(book);
        if is_early {
            self.poke();
        }
        entry
    }

    /// Has the places expire whose lease was to end by `now`.
    pub(crate) fn expire(&self, now: Instant) {
        let mut due = Vec::new();
        let mut book = lock(&self.book);
        while let Some(first) = book.due.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        drop(book);
        due.iter().filter_map(Weak::upgrade).for_each(|place| place.expire(now));
    }

    /// The time when the keeper must look again: at `beat_at`, or when a lease ends before that.
    pub(crate) fn wakes_at(&self, beat_at: Instant) -> Instant {
        let mut book = lock(&self.book);
        let lease_end = book.due.first_key_value().map(|((until, _), _)| *until);
        book.wakes_at = lease_end.map_or(beat_at, |until| until.min(beat_at));
        book.wakes_at
    }

    /// Makes the keeper look again.
    pub(crate) fn poke(&self) {
        self.poke.notify_one();
    }

    /// Resolves when the keeper is to look again.
    pub(crate) async fn poked(&self) {
        self.poke.notified().await;
    }
}

/// The presence of a claim at its store, as far as it is known.
pub(crate) trait Presence {
    /// It is not there, for sure.
    const ABSENT: Self;

    /// It is not there, or is being taken away.
    fn is_over(&self) -> bool;
}

/// The presence of a claim, and the end of its lease.
#[derive(Debug)]
pub(crate) struct Tenure<P> {
    pub(crate) presence: P,
    /// The end of the lease, unless it is extended.
    until: Instant,
    entry: Option<Entry>,
}

impl<P: Presence> Tenure<P> {
    pub(crate) fn new(presence: P, until: Instant) -> Self {
        Self { presence, until, entry: None }
    }

    /// Has its place looked at when the lease ends.
    pub(crate) fn enter(&mut self, leases: &Leases, place: &Arc<impl Leased>) {
        let place: Weak<_> = Arc::downgrade(place);
        self.entry = Some(leases.enter(place, self.until));
    }

    pub(crate) fn leave(&mut self, leases: &Leases) {
        if let Some(entry) = self.entry.take() {
            lock(&leases.book).due.remove(&entry);
        }
    }

    /// It is known not to be there.
    pub(crate) fn is_gone(&mut self) {
        if !self.presence.is_over() {
            self.presence = P::ABSENT;
        }
    }

    /// Extends the lease; `false` if the claim was over before.
    pub(crate) fn extend(&mut self, until: Instant) -> bool {
        self.until = self.until.max(until);
        !self.presence.is_over()
    }

    /// Whether its place is to be given up now, as the lease is over. If it is not yet, the place comes
    /// back at its end.
    pub(crate) fn ends(&mut self, now: Instant, leases: &Leases, place: &Arc<impl Leased>) -> bool {
        self.entry = None;
        if self.presence.is_over() {
            return false;
        }
        let ends = now >= self.until;
        if !ends {
            self.enter(leases, place);
        }
        ends
    }
}
