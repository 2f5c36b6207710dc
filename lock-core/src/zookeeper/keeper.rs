//! The one task of a session. It proves that the session lives for as long as a claim depends on
//! it, and takes away the nodes of claims that nobody has asked about for the length of their
//! lease: a session is shared by all locks of a client, so it would keep them for ever.

use std::sync::{Arc, Weak};
use std::time::Instant;

use tokio::task::JoinSet;
use tokio::time::sleep_until;
use zookeeper_client::StateWatcher;

use super::life::Life;
use super::seat::Seat;
use super::session::Session;
use crate::engine::clock;

/// Ends the session for all who have it, also when the runtime drops the task.
struct Ends(Arc<Life>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Keeps a session for as long as somebody has it and the server knows it.
pub(super) async fn keep(session: Weak<Session>, life: Arc<Life>, mut state: StateWatcher) {
    let ends = Ends(life.clone());
    // More than one may be under way: each proves the time of its own sending.
    let mut beats = JoinSet::new();
    let mut last_beat = clock::now();
    loop {
        let beat_at = life.clock().beat_at().max(last_beat + life.clock().beat_again());
        let wakes_at = life.wakes_at(beat_at);
        tokio::select! {
            state = state.changed() => {
                if state.is_terminated() {
                    tracing::warn!(%state, "the session at zookeeper is over");
                    return drop(ends);
                }
                tracing::info!(%state, "the link to zookeeper");
            }
            Some(_) = beats.join_next() => {}
            () = sleep_until(wakes_at.into()) => {}
            () = life.poke.notified() => {}
        }
        let Some(session) = session.upgrade() else { return };
        if life.is_over() {
            return;
        }
        let now = clock::now();
        for seat in life.due(now) {
            seat.upgrade().inspect(|seat| Seat::look(seat, now));
        }
        if now >= beat_at {
            last_beat = now;
            if life.is_needed() {
                beats.spawn(beat(session, now));
            }
        }
    }
}

async fn beat(session: Arc<Session>, now: Instant) {
    // Later it would prove nothing that is of use.
    session.beat(now + session.timeout() * 2 / 3).await;
}
