//! The one task of a session. It proves that the session lives. It also takes away the nodes of
//! claims that nobody has asked about for the length of their lease. All locks of a client share
//! one session, which would keep those nodes for ever.

use std::sync::{Arc, Weak};

use tokio::task::JoinSet;
use zookeeper_client::{SessionState, StateWatcher};

use super::Session;
use super::liveness::{End, Liveness};
use crate::ground::{Plus as _, clock};

/// Ends the session for all who have it, also when the task panics.
struct Ends(Arc<Liveness>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end(End::GivenUp);
    }
}

/// Keeps a session for as long as somebody has it and the server knows it.
pub(in crate::zookeeper) async fn keep(
    session: Weak<Session>,
    liveness: Arc<Liveness>,
    mut state: StateWatcher,
) {
    let _ends = Ends(liveness.clone());
    // More than one may be under way: each proves the time of its own sending.
    let mut beats = JoinSet::new();
    let mut beat_at = liveness.clock().beat_at();
    loop {
        let wakes_at = liveness.leases.wakes_at(beat_at);
        let mut linked = false;
        tokio::select! {
            state = state.changed() => {
                if state.is_terminated() {
                    tracing::warn!(end = %state, "the session at zookeeper is over");
                    if state == SessionState::Expired {
                        liveness.end(End::Expired);
                    }
                    return;
                }
                tracing::info!(%state, "the link to zookeeper");
                linked = state == SessionState::SyncConnected;
            }
            Some(_) = beats.join_next() => {}
            () = clock::alarm(wakes_at) => {}
            () = liveness.leases.poked() => {}
        }
        let Some(session) = session.upgrade() else { return };
        if let Some(end) = liveness.ended() {
            tracing::warn!(?end, "the session at zookeeper is over");
            return;
        }
        let now = clock::now();
        liveness.leases.expire(now);
        let clock = liveness.clock();
        // A write under way over a link that broke is lost: on the new one it is sent at once.
        if now >= beat_at || linked {
            beats.spawn(async move { session.beat().await });
            beat_at = now.plus(clock.beat_again());
        }
        beat_at = beat_at.max(clock.beat_at());
    }
}
