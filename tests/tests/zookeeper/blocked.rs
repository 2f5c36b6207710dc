//! F45: a worker, or a whole runtime, of the application that does not come to run anything. The
//! session, and with it every lock, lives on.
//!
//! "Blocked" is a thread that waits for a gate, so it lasts for as long as the test needs.

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::poll;
use lock_core::backend::{Attempt, Backend, Claim, ClaimId, Mode, Renewal, Terms, ZooKeeper};
use lock_core::{Background, Key, LockClient, LockGuard, LockOptions};
use tests::proxy::{Action, Match, Proxy};
use tests::wait::{eventually, within};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::support::*;

/// Several sessions of [`SHORT`].
const SEVERAL: Duration = ms(7_000);

fn workers(n: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(n).enable_all().build().expect("a runtime")
}

fn alone() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn start() -> Zoo {
    alone().block_on(Zoo::start())
}

/// What blocks a thread until it is opened, or dropped.
fn gate() -> (Sender<()>, Receiver<()>) {
    channel()
}

/// A worker of `runtime` that has taken `k`, and does not yield until the gate opens. It gives its
/// guard back then.
struct BlockedWorker {
    gate: Sender<()>,
    guards: Receiver<LockGuard>,
}

impl BlockedWorker {
    fn start(runtime: &Runtime, locks: &LockClient) -> Self {
        let ((gate, blocked), (done, guards)) = (gate(), channel());
        let (locks, (there, is_there)) = (locks.clone(), channel());
        drop(runtime.spawn(async move {
            let guard = locks.lock("k").await.expect("a free key");
            there.send(()).expect("the test goes on");
            // Until the gate is dropped.
            let _ = blocked.recv();
            drop(done.send(guard));
        }));
        is_there.recv().expect("it blocks");
        Self { gate, guards }
    }

    fn end(self) -> LockGuard {
        drop(self.gate);
        self.guards.recv().expect("its guard")
    }
}

/// A thread whose runtime has taken `k` with a client of its own, and runs nothing until the gate
/// opens.
struct BlockedRuntime {
    gate: Sender<()>,
    ends: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl BlockedRuntime {
    fn start(server: &Zoo, background: Background) -> (Self, LockClient, LockGuard) {
        let ((gate, blocked), (there, is_there)) = (gate(), channel());
        let (ends, ended) = oneshot::channel();
        let options = LockOptions::new().with_wait(ms(9_000)).with_lease(ms(30_000));
        let client = LockClient::builder(server.at(SHORT)).defaults(options);
        let client = client.background(background);
        let thread = std::thread::spawn(move || {
            alone().block_on(async move {
                let locks = client.connect().await.expect("a client");
                let guard = locks.lock("k").await.expect("a free key");
                there.send((locks, guard)).expect("the test goes on");
                let _ = blocked.recv();
                drop(ended.await);
            });
        });
        let (locks, guard) = is_there.recv().expect("it blocks");
        (Self { gate, ends, thread }, locks, guard)
    }

    /// It goes on, and `then` it ends.
    fn end(self, then: impl Future<Output = ()>) {
        drop(self.gate);
        alone().block_on(then);
        drop(self.ends);
        self.thread.join().expect("it has ended");
    }
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
        let worker = BlockedWorker::start(&runtime, &locks);
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
    let (blocked, locks, guard) = BlockedRuntime::start(&server, Background::Thread);
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
    blocked.end(nothing_left(&server, [locks]));
}

/// F45 (V3): where the server does not answer, a holder is told at the end of its hold, whichever
/// runtime waits for that.
#[test]
fn a_loss_is_told_in_time_while_a_worker_is_blocked() {
    for elsewhere in [false, true] {
        let (server, runtime) = (start(), workers(2));
        let locks = runtime.block_on(connect(&server.at(SHORT)));
        let guard = runtime.block_on(locks.lock("held").acquire()).unwrap();
        let worker = BlockedWorker::start(&runtime, &locks);
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
    let terms = Terms { lease, mode, fences: 1, patience: None, name: None, replicas: None };
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
    let (blocked, locks, guard) = BlockedRuntime::start(&server, Background::Runtime);
    let (session, _) = server.holder("k").unwrap();
    alone().block_on(async {
        within("the loss", guard.lost()).await;
        drop(guard);
        the_next_one_proceeds(&server, "k").await;
        let written = || server.node(&format!("/{{lock-sessions}}/{session:#x}")).unwrap().version;
        let before = written();
        eventually("three sessions have passed", || written() >= before + 9).await;
    });
    blocked.end(nothing_left(&server, [locks]));
}

/// A worker drops its guard of `k`, and does not yield until the gate opens.
fn drop_and_block(runtime: &Runtime, guard: LockGuard) -> Sender<()> {
    let ((gate, blocked), (there, is_there)) = (gate(), channel());
    drop(runtime.spawn(async move {
        drop(guard);
        there.send(()).expect("the test goes on");
        let _ = blocked.recv();
    }));
    is_there.recv().expect("it blocks");
    gate
}

/// The same with a release that is awaited.
fn release_and_block(runtime: &Runtime, guard: LockGuard) -> Sender<()> {
    let ((gate, blocked), (there, is_there)) = (gate(), channel());
    drop(runtime.spawn(async move {
        guard.release().await.expect("a release");
        there.send(()).expect("the test goes on");
        let _ = blocked.recv();
    }));
    is_there.recv().expect("it blocks");
    gate
}

fn is_next(next: impl Future<Output = Result<LockGuard, lock_core::AcquireError>>) -> LockGuard {
    alone().block_on(async { within("the next grant", next).await.expect("a grant") })
}

/// F45 (V5): whoever is next, in another process or in this one, does not wait for the task that
/// gave the lock up to yield, though it is all that its runtime runs.
#[test]
fn a_task_that_lets_go_and_computes_holds_up_nobody() {
    let (server, runtime) = (start(), workers(1));
    let locks = runtime.block_on(connect(&server.at(LONG)));
    let (theirs, others) = (workers(1), workers(1));
    let rival = theirs.block_on(connect(&server.at(LONG)));
    for lets_go in [drop_and_block, release_and_block] {
        let guard = runtime.block_on(locks.lock("k").acquire()).unwrap();
        let waiting = theirs.spawn(rival.lock("k").acquire());
        theirs.block_on(server.watching("k", 2));
        let (began, gate) = (Instant::now(), lets_go(&runtime, guard));
        let guard = is_next(async { waiting.await.expect("no panic") });
        assert!(began.elapsed() < LONG / 3, "by the watch: {:?}", began.elapsed());
        drop(gate);
        theirs.block_on(guard.release()).unwrap();

        let guard = runtime.block_on(locks.lock("k").acquire()).unwrap();
        let waiting = others.spawn(locks.lock("k").acquire());
        while locks.stats().waiters == 0 {
            std::thread::yield_now();
        }
        let gate = lets_go(&runtime, guard);
        let next = is_next(async { waiting.await.expect("no panic") });
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
