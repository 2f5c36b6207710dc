//! The one task of a session. It keeps the lease, and takes away the keys of claims that nobody has
//! asked about for the length of their own lease: all locks of a client share the session's, which
//! would keep those keys for ever.

use std::sync::{Arc, Weak};

use tokio::task::JoinSet;

use super::liveness::Liveness;
use super::place::Place;
use super::session::Session;
use crate::ground::{Plus as _, clock};

/// Ends the session for all who have it, also when the task panics.
struct Ends(Arc<Liveness>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Keeps a session for as long as somebody has it and the servers know it.
pub(super) async fn keep(session: Weak<Session>, liveness: Arc<Liveness>) {
    let _ends = Ends(liveness.clone());
    // More than one may be under way: each proves the time of its own sending.
    let mut beats = JoinSet::new();
    let mut beat_at = liveness.clock().beat_at();
    loop {
        let wakes_at = liveness.wakes_at(beat_at);
        tokio::select! {
            Some(_) = beats.join_next() => {}
            () = clock::sleep_until(wakes_at) => {}
            () = liveness.poke.notified() => {}
        }
        let Some(session) = session.upgrade() else { return };
        if liveness.is_over() {
            tracing::warn!(lease = format!("{:x}", session.lease), "the session at etcd is over");
            return;
        }
        let now = clock::now();
        for place in liveness.due(now) {
            place.upgrade().inspect(|place| Place::expire(place, now));
        }
        let clock = liveness.clock();
        if now >= beat_at {
            beats.spawn(async move { session.beat().await });
            beat_at = now.plus(clock.beat_again());
        }
        beat_at = beat_at.max(clock.beat_at());
    }
}
