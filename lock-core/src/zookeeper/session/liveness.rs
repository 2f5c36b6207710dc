//! The life of a session: until when it surely lives, whether it is over, and which claims have a
//! node in it.

use std::sync::Mutex;
use std::time::Instant;

use tokio::sync::watch;

use crate::backend::leases::Leases;
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

/// Until when a session surely lives, whether it is over, and which claims have a node in it.
#[derive(Debug)]
pub(in crate::zookeeper) struct Liveness {
    clock: watch::Sender<SessionClock>,
    end: watch::Sender<Option<End>>,
    /// The time when the server last answered anything.
    heard: Mutex<Instant>,
    /// The claims that have, or may have, a node in this session.
    pub(in crate::zookeeper) leases: Leases,
}

impl Liveness {
    pub(in crate::zookeeper) fn new(clock: SessionClock) -> Self {
        let leases = Leases::new(clock.beat_at());
        Self {
            clock: watch::Sender::new(clock),
            end: watch::Sender::new(None),
            heard: Mutex::new(clock::now()),
            leases,
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
            self.leases.poke();
        }
    }
}
