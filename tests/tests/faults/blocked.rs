//! F45: a worker, or a whole runtime, of the application that does not come to run anything.

use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use futures_util::poll;
use lock_core::{Acquire, LockClient, LockGuard};
use tests::blocked::{Application, BlockedWorker, LETS_GO, alone, next_grant, workers};
use tests::redis::RedisServer;
use tests::wait::{eventually, within};
use tokio::runtime::Runtime;

use crate::support::*;

const LEASE: Duration = ms(400);

/// Many leases.
const LONG: Duration = ms(3_000);

/// A worker of `runtime` takes `k`, polls another acquire of it, and does not yield then.
fn blocked(runtime: &Runtime, locks: &LockClient) -> BlockedWorker<(LockGuard, Pin<Box<Acquire>>)> {
    let locks = locks.clone();
    BlockedWorker::after(runtime, async move {
        let guard = locks.lock("k").await.expect("a free key");
        let mut another = Box::pin(locks.lock("k").acquire());
        assert!(poll!(&mut another).is_pending());
        (guard, another)
    })
}

/// Waits for `k` in vain.
async fn nobody_else_gets_it(server: &RedisServer) {
    let rival = connect(&server.url(), LEASE).await;
    let error = rival.lock("k").wait(LONG).await.expect_err("it is held");
    assert!(error.is_timeout(), "{error}");
}

/// Freezes the server, and gives the instant at which the lease ends then.
fn freeze(server: &RedisServer, guard: &lock_core::LockGuard) -> Instant {
    server.freeze();
    // Renewals that were answered just before are counted by now, or never are.
    let left = guard.lease_left();
    Instant::now() + left
}

fn in_time(what: &str, end: Instant) {
    assert!(end.elapsed() < LATE, "{what} came {:?} late", end.elapsed());
}

/// F45 (V1, V2, V3): the conductor renews what a blocked worker holds.
#[test]
fn a_hold_is_kept_while_its_worker_is_blocked() {
    let (server, runtime) = (RedisServer::start(), workers(2));
    let locks = runtime.block_on(connect(&server.url(), LEASE));
    let worker = blocked(&runtime, &locks);
    alone().block_on(nobody_else_gets_it(&server));
    let (guard, another) = worker.end();
    drop(another);
    assert!(guard.is_held());
    runtime.block_on(async {
        guard.release().await.expect("a release");
        nothing_left(&server, [locks]).await;
    });
}

/// F45 (V4): the wait of one task does not hang on another.
#[test]
fn a_wait_ends_in_time_while_a_worker_is_blocked() {
    let (server, runtime) = (RedisServer::start(), workers(2));
    let locks = runtime.block_on(connect(&server.url(), LEASE));
    let worker = blocked(&runtime, &locks);
    let began = Instant::now();
    let waiting = runtime.spawn(locks.lock("k").wait(ms(300)).acquire());
    let error = alone().block_on(within("the end of the wait", waiting)).unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error}");
    in_time("the end of the wait", began + ms(300));
    drop(worker.end());
    runtime.block_on(nothing_left(&server, [locks]));
}

/// F45 (V3): where nobody can renew it, a holder is told at the end of its lease, whichever runtime
/// waits for that.
#[test]
fn a_loss_is_told_in_time_while_a_worker_is_blocked() {
    for elsewhere in [false, true] {
        let (server, runtime) = (RedisServer::start(), workers(2));
        let locks = runtime.block_on(connect(&server.url(), LEASE));
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
        server.thaw();
        drop((guard, worker.end()));
        runtime.block_on(nothing_left(&server, [locks]));
    }
}

/// F45 (V1, V2, V3, V4): with the runtime blocked that a client was made in, as a worker of actix
/// may be: another one waits, is told in time, and is handed the lock.
#[test]
fn a_blocked_runtime_loses_nothing_for_the_others() {
    let server = RedisServer::start();
    let url = server.url();
    let ((locks, guard), blocked) = Application::blocked_after(async move || {
        let locks = connect(&url, LEASE).await;
        let guard = locks.lock("k").await.expect("a free key");
        (locks, guard)
    });
    alone().block_on(async {
        let waiting = locks.lock("k").wait(ms(300)).acquire();
        let began = Instant::now();
        let error = within("the end of the wait", waiting).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        in_time("the end of the wait", began + ms(300));
        nobody_else_gets_it(&server).await;
        assert!(guard.is_held());
        // It is known that the rival has gone.
        let renewals = locks.stats().renewals;
        eventually("renewals", || locks.stats().renewals >= renewals + 2).await;
        // A fresh key has one token; for the next one it has to be renewed.
        let token = guard.token();
        let mut next = pin!(locks.lock("k").acquire());
        assert!(poll!(&mut next).is_pending());
        within("the release", guard.release()).await.expect("a release");
        let guard = within("the hand-off", next).await.expect("a grant");
        assert!(guard.token() > token);
        let end = freeze(&server, &guard);
        within("the loss", guard.lost()).await;
        in_time("the loss", end);
        server.thaw();
        drop(guard);
    });
    drop(blocked);
    alone().block_on(nothing_left(&server, [locks]));
}

/// F45 (V5): whoever is next, in another process or in this one, does not wait for the task that
/// gave the lock up to yield.
#[test]
fn a_task_that_lets_go_and_computes_holds_up_nobody() {
    let (server, runtime) = (RedisServer::start(), workers(2));
    let locks = runtime.block_on(connect(&server.url(), ms(30_000)));
    let theirs = alone();
    let rival = theirs.block_on(connect(&server.url(), ms(30_000)));
    for lets_go in LETS_GO {
        // Nobody polls the rival's push while it is not its turn: it asks again within a recheck.
        let guard = runtime.block_on(locks.lock("k").acquire()).unwrap();
        let gate = lets_go(&runtime, guard);
        drop(theirs.block_on(within("another process", rival.lock("k").acquire())).unwrap());
        theirs.block_on(eventually_free(&rival));
        drop(gate);

        let guard = runtime.block_on(locks.lock("k").acquire()).unwrap();
        let waiting = runtime.spawn(locks.lock("k").acquire());
        while locks.stats().waiters == 0 {
            std::thread::yield_now();
        }
        let gate = lets_go(&runtime, guard);
        let next = next_grant(async { waiting.await.expect("no panic") });
        drop(gate);
        runtime.block_on(next.release()).unwrap();
    }
    drop((rival, theirs));
    runtime.block_on(nothing_left(&server, [locks]));
}

async fn eventually_free(locks: &LockClient) {
    eventually("it is given back", || locks.stats().keys == 0).await;
}

/// F45 (V4): waits, pauses and retries on an executor that is not Tokio's.
#[test]
fn an_executor_without_timers_is_served() {
    let (server, runtime) = (RedisServer::start(), workers(2));
    let locks = runtime.block_on(connect(&server.url(), LEASE));
    let guard = futures_executor::block_on(locks.lock("k").acquire()).unwrap();
    let began = Instant::now();
    let busy = locks.lock("k").wait(ms(50)).retries(1).acquire();
    let error = futures_executor::block_on(busy).unwrap_err();
    assert!(error.is_timeout(), "{error}");
    in_time("the end of the budget", began + ms(100));
    let end = freeze(&server, &guard);
    futures_executor::block_on(guard.lost());
    in_time("the loss", end);
    server.thaw();
    drop(guard);
    runtime.block_on(nothing_left(&server, [locks]));
}
