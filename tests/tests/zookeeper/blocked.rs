//! F45: a worker, or a whole runtime, of the application that does not come to run anything. The
//! session, and with it every lock, lives on.

use std::future::Future;
use std::time::Instant;

use futures_util::poll;
use lock_core::backend::{Attempt, Backend, Claim, ClaimId, Renewal, Terms};
use lock_core::options::Background;
use lock_core::zookeeper::ZooKeeper;
use lock_core::{Key, LockClient, LockGuard, LockOptions};
use tests::blocked::{Application, alone, workers};
use tests::proxy::{Action, Match, Proxy};
use tests::stalls::Stopwatch;
use tests::wait::{eventually, within};

use crate::support::*;

fn start() -> Zoo {
    alone().block_on(Zoo::start())
}

/// A runtime takes `k` with a client of its own, and runs nothing then.
fn blocked_runtime(server: &Zoo, background: Background) -> (Application, LockClient, LockGuard) {
    let options = LockOptions::new().with_wait(ms(9_000)).with_lease(ms(30_000));
    let client = LockClient::builder(server.at(SHORT)).defaults(options);
    let client = client.background(background);
    let ((locks, guard), blocked) = Application::blocked_after(async move || {
        let locks = client.connect().await.expect("a client");
        let guard = locks.lock("k").await.expect("a free key");
        (locks, guard)
    });
    (blocked, locks, guard)
}

/// It goes on, and `then` it ends.
fn ends(blocked: Application, then: impl Future<Output = ()>) {
    blocked.let_go();
    alone().block_on(then);
    drop(blocked);
}

/// Freezes the server, and gives the instant at which the hold ends then.
fn freeze(server: &Zoo, guard: &LockGuard) -> Instant {
    server.pause();
    // An answer that came just before is counted by now, or never is.
    let left = guard.lease_left();
    assert!(left < SHORT, "{left:?}");
    Instant::now() + left
}

fn in_time(what: &str, end: Instant) {
    let late = Stopwatch::since(end).own();
    assert!(late < LATE, "{what} came {late:?} late");
}

/// F45 (V3, V5): a holder that listens to the store in a runtime that ends at that moment hears of
/// what happens in another.
#[test]
fn a_claim_that_listens_outlives_the_runtime_that_it_began_to_listen_in() {
    let (server, first) = (start(), alone());
    let terms = Terms::exclusive(ms(30_000));
    let store = first.block_on(ZooKeeper::connect(&server.at(LONG))).expect("a session");
    let key = Key::new("k").expect("a good key");
    let mut claim = store.claim(&key, ClaimId::from_bits(fastrand::u128(..)), terms);
    first.block_on(async {
        assert!(matches!(claim.attempt().await, Ok(Attempt::Granted(_))));
    });
    let mut changed = Box::pin(claim.changed());
    first.block_on(async { assert!(poll!(&mut changed).is_pending()) });
    drop(first);
    alone().block_on(async {
        let force = async {
            eventually("it listens", || server.watches() > 0).await;
            assert!(store.force_release(&key).await.expect("an answer"));
        };
        tokio::join!(within("the news", changed), force);
    });
    assert!(matches!(alone().block_on(claim.renew()), Ok(Renewal::Lost)));
    drop((claim, store));
    alone().block_on(nothing_left(&server, []));
}

/// F45: where the application asked for it, renewals are its runtime's, and a hold ends with a
/// runtime that is blocked. Its session does not.
#[test]
fn a_session_outlives_a_blocked_runtime_that_renews() {
    let server = start();
    let (blocked, locks, guard) = blocked_runtime(&server, Background::Runtime);
    let (session, _) = server.holder("k").unwrap();
    alone().block_on(async {
        within("the loss", guard.lost()).await;
        drop(guard);
        the_next_one_proceeds(&server, "k").await;
        let written = || server.node(&format!("/{{lock-sessions}}/{session:#x}")).unwrap().version;
        let before = written();
        eventually("three sessions have passed", || written() >= before + 9).await;
    });
    ends(blocked, nothing_left(&server, [locks]));
}

/// F45 (V4): a client that is made and used on an executor that is not Tokio's.
#[test]
fn a_client_needs_no_runtime_of_the_application() {
    let server = start();
    futures_executor::block_on(async {
        // A busy server may be slow to answer; only the loss is to come soon.
        let (locks, silent) = (connect(&server.at(LONG)).await, connect(&server.at(SHORT)).await);
        let guard = locks.lock("k").await.unwrap();
        let began = Instant::now();
        let error = locks.lock("k").wait(ms(50)).retries(1).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        in_time("the end of the budget", began + ms(100));
        assert!(locks.inspect("k").await.unwrap().holder().is_some());
        assert!(locks.request_revoke("k").await.unwrap());
        guard.revoke_requested().await;
        assert!(locks.force_release("k").await.unwrap());
        guard.lost().await;
        let guard = silent.lock("k").await.unwrap();
        let end = freeze(&server, &guard);
        guard.lost().await;
        in_time("the loss", end);
        server.resume();
    });
    alone().block_on(nothing_left(&server, []));
}

/// V6: the last user of a client may be anywhere, with its runtime gone: the session is closed at
/// the server at once, and does not last until its timeout.
#[test]
fn a_session_is_closed_at_once_wherever_its_client_goes() {
    let server = start();
    let gone = |what: &str| {
        let began = Stopwatch::start();
        alone().block_on(eventually(what, || server.sessions().is_empty()));
        assert!(began.own() < LONG / 3, "{what}: {:?}", began.elapsed());
    };
    let made = || {
        let runtime = workers(1);
        let locks = runtime.block_on(connect(&server.at(LONG)));
        (locks, runtime)
    };

    let (locks, runtime) = made();
    runtime.block_on(async { drop(locks) });
    gone("in its runtime");

    let (locks, runtime) = made();
    drop(runtime);
    drop(locks);
    gone("after its runtime");

    let (locks, runtime) = made();
    drop(runtime.spawn(async move {
        let _locks = locks;
        std::future::pending::<()>().await;
    }));
    drop(runtime);
    gone("with its runtime");

    // The guard is all that is left of the client; its drop is settled by the client's own thread.
    let (locks, runtime) = made();
    let guard = runtime.block_on(locks.lock("k").acquire()).unwrap();
    drop(locks);
    drop(runtime);
    drop(guard);
    gone("with its last guard");
}

/// V6: a connect that is dropped leaves no session behind.
#[test]
fn a_connect_that_was_given_up_leaves_no_session() {
    let server = start();
    let proxy = Proxy::zookeeper(server.addr());
    let make = Match::verb("MULTI").containing("/{lock-sessions}/");
    let trap = proxy.trap(make, Action::HoldRequest);
    let url = with_session(&proxy.url(), LONG);
    let runtime = workers(1);
    let connecting = runtime.spawn(async move { drop(LockClient::connect(&url).await) });
    runtime.block_on(trap.sprung());
    connecting.abort();
    drop(runtime);
    drop(trap);
    alone().block_on(nothing_left(&server, []));
}
