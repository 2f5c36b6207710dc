//! The one task of a session. It keeps the lease, and takes away the keys of claims that nobody has
//! asked about for the length of their own lease: all locks of a client share the session's, which
//! would keep those keys for ever.

use std::sync::{Arc, Weak};

use tokio::task::JoinSet;

use super::clock::Beats;
use super::links::Links;
use super::liveness::Liveness;
use super::session::Session;
use crate::backend::Fault;
use crate::ground::clock;

/// Ends the session for all who have it, also when the task panics.
struct Ends(Arc<Liveness>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Opens a session that is kept. To be called at home.
pub(super) async fn open(links: Arc<Links>) -> Result<Arc<Session>, Fault> {
    let session = Session::open(links).await?;
    let keeper = keep(Arc::downgrade(&session), session.liveness.clone());
    drop(session.links.home.spawn(keeper));
    Ok(session)
}

/// Keeps a session for as long as somebody has it and the servers know it.
async fn keep(session: Weak<Session>, liveness: Arc<Liveness>) {
    let _ends = Ends(liveness.clone());
    let Some(mut served) = session.upgrade().map(|session| session.links.served()) else { return };
    // More than one may be under way: each proves the time of its own sending.
    let mut under_way = JoinSet::new();
    let mut beats = Beats::start(&liveness.clock());
    loop {
        let wakes_at = liveness.leases.wakes_at(beats.next());
        tokio::select! {
            Some(proved) = under_way.join_next() => match proved {
                Ok(true) => beats.proved(&liveness.clock()),
                _ => beats.failed(clock::now(), clock::random_bits()),
            },
            () = clock::alarm(wakes_at) => {}
            () = liveness.leases.poked() => {}
            Ok(()) = served.changed() => {
                if *served.borrow_and_update() {
                    beats.served(clock::now());
                }
            }
        }
        let Some(session) = session.upgrade() else { return };
        if liveness.is_over() {
            tracing::warn!(lease = format!("{:x}", session.lease), "the session at etcd is over");
            return;
        }
        let now = clock::now();
        liveness.leases.expire(now);
        if now >= beats.next() {
            beats.sent(&liveness.clock(), now);
            under_way.spawn(async move { session.beat().await });
        }
    }
}
