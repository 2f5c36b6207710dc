//! F45: a worker, or a whole runtime, of the application that does not come to run anything. The
//! session, and with it every lock, lives on.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::poll;
use lock_core::backend::{Attempt, Backend, Claim, ClaimId, Mode, Renewal, Terms};
use lock_core::zookeeper::ZooKeeper;
use lock_core::{Background, Key, LockClient, LockGuard, LockOptions};
use tests::blocked::{Application, BlockedWorker, LETS_GO, alone, next_grant, workers};
use tests::proxy::{Action, Match, Proxy};
use tests::wait::{eventually, within};
use tokio::runtime::Runtime;

use crate::support::*;

/// Several sessions of [`SHORT`].
const SEVERAL: Duration = ms(7_000);

fn start() -> Zoo {
    alone().block_on(Zoo::start())
}

/// A worker of `runtime` takes `k`, and does not yield then.
fn blocked(runtime: &Runtime, locks: &LockClient) -> BlockedWorker<LockGuard> {
    let locks = locks.clone();
    BlockedWorker::after(runtime, async move { locks.lock("k").await.expect("a free key") })
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

/// Waits for `k` in vain.
async fn nobody_else_gets_it(server: &Zoo) {
    let rival = connect(&server.at(LONG)).await;
    let error = rival.lock("k").wait(SEVERAL).await.expect_err("it is held");
    assert!(error.is_timeout(), "{error}");
}

/// Freezes the server, and gives the instant at which the hold ends then.
fn freeze(server: &Zoo, guard: &LockGuard) -> Instant {
    server.pause();
    // What was answered just before is counted by now, or never is.
    let left = guard.lease_left();
    assert!(left < SHORT, "{left:?}");
    Instant::now() + left
}

fn in_time(what: &str, end: Instant) {
    assert!(end.elapsed() < LATE, "{what} came {:?} late", end.elapsed());
}

/// F45 (V1, V2, V3): a hold is kept while its worker is blocked, be it the only one.
#[test]
fn a_hold_is_kept_while_its_worker_is_blocked() {
    for n in [1, 2] {
        let (server, runtime) = (start(), workers(n));
        let locks = runtime.block_on(connect(&server.at(SHORT)));
        let worker = blocked(&runtime, &locks);
        let before = server.holder("k").expect("it is held");
        alone().block_on(nobody_else_gets_it(&server));
        assert_eq!(server.holder("k"), Some(before));
        let guard = worker.end();
        assert!(guard.is_held());
        assert_eq!(guard.token().get() >> 12, before.1);
        runtime.block_on(async {
            guard.release().await.expect("a release");
            nothing_left(&server, [locks]).await;
        });
    }
}

/// F45 (V1, V2, V3, V4): with the runtime blocked that a client was made in, as a worker of actix
/// may be: another one waits, is told in time, and is handed the lock.
#[test]
fn a_blocked_runtime_loses_nothing_for_the_others() {
    let server = start();
    let (blocked, locks, guard) = blocked_runtime(&server, Background::Thread);
    alone().block_on(async {
        let began = Instant::now();
        let waiting = locks.lock("k").wait(ms(300)).acquire();
        let error = within("the end of the wait", waiting).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        in_time("the end of the wait", began + ms(300));
        nobody_else_gets_it(&server).await;
        assert!(guard.is_held());
        let token = guard.token();
        let mut next = pin!(locks.lock("k").acquire());
        assert!(poll!(&mut next).is_pending());
        within("the release", guard.release()).await.expect("a release");
        let guard = within("the hand-off", next).await.expect("a grant");
        assert!(guard.token() > token);
        let end = freeze(&server, &guard);
        within("the loss", guard.lost()).await;
        in_time("the loss", end);
        server.resume();
        drop(guard);
    });
    ends(blocked, nothing_left(&server, [locks]));
}

/// F45 (V3): where the server does not answer, a holder is told at the end of its hold, whichever
/// runtime waits for that.
#[test]
fn a_loss_is_told_in_time_while_a_worker_is_blocked() {
    for elsewhere in [false, true] {
        let (server, runtime) = (start(), workers(2));
        let locks = runtime.block_on(connect(&server.at(SHORT)));
        let guard = runtime.block_on(locks.lock("held").acquire()).unwrap();
        let worker = blocked(&runtime, &locks);
        let lost = guard.lost();
        let end = freeze(&server, &guard);
        if elsewhere {
            alone().block_on(within("the loss", lost));
        } else {
            alone().block_on(within("the loss", runtime.spawn(lost))).unwrap();
        }
        in_time("the loss", end);
        server.resume();
        drop((guard, worker.end()));
        runtime.block_on(nothing_left(&server, [locks]));
    }
}

/// F45 (V3, V5): a holder that listens to the store in a runtime that ends at that moment hears of
/// what happens in another.
#[test]
fn a_claim_that_listens_outlives_the_runtime_that_it_began_to_listen_in() {
    let (server, first) = (start(), alone());
    let (lease, mode) = (ms(30_000), Mode::Exclusive);
    let terms = Terms { lease, mode, tokens_max: 1, queues: true, name: None, replicas: None };
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

/// F45 (V5): whoever is next, in another process or in this one, does not wait for the task that
/// gave the lock up to yield, though it is all that its runtime runs.
#[test]
fn a_task_that_lets_go_and_computes_holds_up_nobody() {
    let (server, runtime) = (start(), workers(1));
    let locks = runtime.block_on(connect(&server.at(LONG)));
    let (theirs, others) = (workers(1), workers(1));
    let rival = theirs.block_on(connect(&server.at(LONG)));
    for lets_go in LETS_GO {
        let guard = runtime.block_on(locks.lock("k").acquire()).unwrap();
        let waiting = theirs.spawn(rival.lock("k").acquire());
        theirs.block_on(server.watching("k", 2));
        let (began, gate) = (Instant::now(), lets_go(&runtime, guard));
        let guard = next_grant(async { waiting.await.expect("no panic") });
        assert!(began.elapsed() < LONG / 3, "by the watch: {:?}", began.elapsed());
        drop(gate);
        theirs.block_on(guard.release()).unwrap();

        let guard = runtime.block_on(locks.lock("k").acquire()).unwrap();
        let waiting = others.spawn(locks.lock("k").acquire());
        while locks.stats().waiters == 0 {
            std::thread::yield_now();
        }
        let gate = lets_go(&runtime, guard);
        let next = next_grant(async { waiting.await.expect("no panic") });
        drop(gate);
        others.block_on(next.release()).unwrap();
    }
    runtime.block_on(nothing_left(&server, [locks, rival]));
}

/// F45 (V4): a client that is made and used on an executor that is not Tokio's.
#[test]
fn a_client_needs_no_runtime_of_the_application() {
    let server = start();
    futures_executor::block_on(async {
        let locks = connect(&server.at(SHORT)).await;
        let guard = locks.lock("k").await.unwrap();
        let began = Instant::now();
        let error = locks.lock("k").wait(ms(50)).retries(1).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        in_time("the end of the budget", began + ms(100));
        assert!(locks.inspect("k").await.unwrap().holder.is_some());
        assert!(locks.request_revoke("k").await.unwrap());
        guard.revoke_requested().await;
        assert!(locks.force_release("k").await.unwrap());
        guard.lost().await;
        let guard = locks.lock("k").await.unwrap();
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
        let began = Instant::now();
        alone().block_on(eventually(what, || server.sessions().is_empty()));
        assert!(began.elapsed() < LONG / 3, "{what}: {:?}", began.elapsed());
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

    // What is left of it is the guard, whose drop is settled by the client's own thread.
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
    let make = Match::verb("CREATE").containing("/{lock-sessions}/");
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
