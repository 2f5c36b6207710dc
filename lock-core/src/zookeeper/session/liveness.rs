//! The life of a session: until when it surely lives, whether it is over, and which claims have a
//! node in it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use tokio::sync::{Notify, watch};

use crate::ground::{clock, lock};
use crate::zookeeper::protocol::clock::SessionClock;

/// The end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::zookeeper) enum End {
    /// The server has counted it out, or the client has, which waits for longer: whatever was
    /// held in it ended before, by the clock.
    Expired,
    /// It was given up here; its nodes go at most a session timeout later.
    GivenUp,
}

/// The holder of a place in a session, until its lease ends.
pub(in crate::zookeeper) trait Leased: fmt::Debug + Send + Sync {
    /// Gives the place up if its lease is over, else comes back at its end.
    fn expire(self: Arc<Self>, now: Instant);
}

/// Names one entry of [`Liveness`]: when its claim is to be looked at, and a number of its own.
pub(in crate::zookeeper) type Entry = (Instant, u64);

/// Until when a session surely lives, whether it is over, and which claims have a node in it.
#[derive(Debug)]
pub(in crate::zookeeper) struct Liveness {
    clock: watch::Sender<SessionClock>,
    end: watch::Sender<Option<End>>,
    /// The time when the server last answered anything.
    heard: Mutex<Instant>,
    nodes: Mutex<Nodes>,
    /// Makes the keeper look again.
    pub(in crate::zookeeper) poke: Notify,
}

/// The claims with a node in this session, by the end of their lease.
#[derive(Debug)]
struct Nodes {
    due: BTreeMap<Entry, Weak<dyn Leased>>,
    entered: u64,
    /// The time when the keeper looks next.
    wakes_at: Instant,
}

impl Liveness {
    pub(in crate::zookeeper) fn new(clock: SessionClock) -> Self {
        let wakes_at = clock.beat_at();
        let nodes = Nodes { due: BTreeMap::new(), entered: 0, wakes_at };
        Self {
            clock: watch::Sender::new(clock),
            end: watch::Sender::new(None),
            heard: Mutex::new(clock::now()),
            nodes: Mutex::new(nodes),
            poke: Notify::new(),
        }
    }

    pub(in crate::zookeeper) fn clock(&self) -> SessionClock {
        *self.clock.borrow()
    }

    /// A write that was sent at `sent` was answered at `answered`.
    pub(in crate::zookeeper) fn proved(&self, sent: Instant, answered: Instant) {
        self.clock.send_modify(|clock| clock.proved(sent, answered));
    }

    /// Waits until the session is confirmed; `false` if it ends.
    pub(in crate::zookeeper) async fn confirmed(&self) -> bool {
        let (mut clock, mut end) = (self.clock.subscribe(), self.end.subscribe());
        let good = |clock: &SessionClock| clock.is_confirmed(clock::now());
        tokio::select! {
            biased;
            _ = end.wait_for(Option::is_some) => false,
            confirmed = clock.wait_for(good) => confirmed.is_ok(),
        }
    }

    /// The server has answered something.
    pub(in crate::zookeeper) fn heard(&self, now: Instant) {
        *lock(&self.heard) = now;
    }

    pub(in crate::zookeeper) fn last_heard(&self) -> Instant {
        *lock(&self.heard)
    }

    pub(in crate::zookeeper) fn ended(&self) -> Option<End> {
        *self.end.borrow()
    }

    /// Waits until the session is over.
    pub(in crate::zookeeper) async fn over(&self) {
        // The sender is here.
        drop(self.end.subscribe().wait_for(Option::is_some).await);
    }

    pub(in crate::zookeeper) fn is_over(&self) -> bool {
        self.ended().is_some()
    }

    /// The session is over: nothing that was held in it is held any more. The first word counts.
    pub(in crate::zookeeper) fn end(&self, how: End) {
        let first = self.end.send_if_modified(|end| end.is_none() && end.replace(how).is_none());
        if first {
            self.poke.notify_one();
        }
    }

    /// A claim has, or may have, a node in this session until `until`.
    pub(in crate::zookeeper) fn enter(&self, node: Weak<dyn Leased>, until: Instant) -> Entry {
        let mut nodes = lock(&self.nodes);
        nodes.entered += 1;
        let entry = (until, nodes.entered);
        nodes.due.insert(entry, node);
        let early = until < nodes.wakes_at;
        drop(nodes);
        if early {
            self.poke.notify_one();
        }
        entry
    }

    pub(in crate::zookeeper) fn leave(&self, entry: Entry) {
        lock(&self.nodes).due.remove(&entry);
    }

    /// Takes out the claims whose lease was to end by `now`.
    pub(in crate::zookeeper) fn due(&self, now: Instant) -> Vec<Weak<dyn Leased>> {
        let mut nodes = lock(&self.nodes);
        let mut due = Vec::new();
        while let Some(first) = nodes.due.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        due
    }

    /// The time when the keeper must look again: at `beat_at`, or when a lease ends before that.
    pub(in crate::zookeeper) fn wakes_at(&self, beat_at: Instant) -> Instant {
        let mut nodes = lock(&self.nodes);
        let lease_end = nodes.due.first_key_value().map(|((until, _), _)| *until);
        nodes.wakes_at = lease_end.map_or(beat_at, |until| until.min(beat_at));
        nodes.wakes_at
    }
}
