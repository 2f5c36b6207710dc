//! The one task of a session. It keeps the lease, and takes away the keys of claims that nobody has
//! asked about for the length of their own lease: all locks of a client share the session's, which
//! would keep those keys for ever.

use std::sync::{Arc, Weak};

use scopeguard::{ScopeGuard, guard};
use tokio::task::JoinSet;

use super::clock::Beats;
use super::links::Links;
use super::session::{Kept, Session};
use crate::backend::Fault;
use crate::ground::clock;

/// Opens a session that is kept. To be called at home.
pub(super) async fn open(links: Arc<Links>) -> Result<Arc<Session>, Fault> {
    let session = Session::open(links).await?;
    let keeper = keep(Arc::downgrade(&session), session.kept());
    drop(session.links.home.spawn(keeper));
    Ok(session)
}

/// Keeps a session for as long as somebody has it and the servers know it.
async fn keep(session: Weak<Session>, kept: Arc<Kept>) {
    let liveness = &kept.liveness;
    // Ends the session for all who have it, also when this panics.
    let ends = guard(liveness, |liveness| {
        liveness.end();
    });
    let mut served = kept.links.served();
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
        if session.strong_count() == 0 {
            // Its drop does so, and gives the lease back only if nothing else has ended it.
            ScopeGuard::into_inner(ends);
            return;
        }
        if liveness.is_over() {
            tracing::warn!(lease = format!("{:x}", kept.lease), "the session at etcd is over");
            return;
        }
        let now = clock::now();
        liveness.leases.expire(now);
        if now >= beats.next() {
            beats.sent(&liveness.clock(), now);
            let kept = kept.clone();
            under_way.spawn(async move { kept.beat().await });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::super::schemes::MEMBERS;
    use super::super::target::Target;
    use super::*;
    use crate::backend::StoreUrl;
    use crate::backend::io::Home;

    /// Far more than any bound here, and less than a reader of a log waits.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// A session whose members are not in reach.
    fn session(home: &Arc<Home>) -> Arc<Session> {
        let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let url = StoreUrl::parse(&format!("etcd://{closed}?session=9s"), &[MEMBERS]).unwrap();
        let links = Links::new(Target::of(&url).unwrap(), home.clone());
        Session::of(links, 7, Duration::from_secs(9), clock::now())
    }

    async fn until(what: impl Fn() -> bool) {
        let polling = async {
            while !what() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, polling).await.expect("it comes to pass");
    }

    #[tokio::test]
    async fn keepalives_that_are_under_way_do_not_keep_a_session_that_nobody_has() {
        let home = Home::start("test").unwrap();
        let session = session(&home);
        let kept = session.kept();
        drop(home.spawn(keep(Arc::downgrade(&session), kept.clone())));
        // One each for this test, for the session, for the keeper, and for two keepalives.
        until(|| Arc::strong_count(&kept) >= 5).await;
        drop((session, kept));
        until(|| home.tasks() == 0).await;
    }

    #[tokio::test]
    async fn a_keeper_that_finds_nobody_leaves_the_lease_to_be_given_back() {
        let home = Home::start("test").unwrap();
        let session = session(&home);
        let (weak, kept) = (Arc::downgrade(&session), session.kept());
        // The last who had it is gone, and the drop has not begun.
        let session = Arc::into_inner(session).expect("the only one");
        kept.liveness.leases.poke();
        keep(weak, kept.clone()).await;
        assert!(!kept.liveness.is_over());
        drop(session);
        assert!(kept.liveness.is_over());
        assert!(home.tasks() > 0, "it is given back");
    }
}
