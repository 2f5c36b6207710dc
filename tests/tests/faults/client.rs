//! What the application does to its own locks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lock_core::{AcquireError, BlockedBy, LockGuard};
use tests::redis::RedisServer;
use tests::wait::{eventually, within};
use tokio::runtime::Builder;

use crate::support::*;

/// F19 (V6): a guard that is dropped, in its runtime, on a thread without one, or by a panic, is
/// released at once, long before its lease of 30 s.
#[tokio::test]
async fn a_dropped_guard_is_released_wherever_it_is_dropped() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(30_000)).await;
    let free = || server.key("lock:{k}").is_none();

    drop(locks.lock("k").await.unwrap());
    eventually("released in its runtime", free).await;

    let guard = locks.lock("k").await.unwrap();
    std::thread::spawn(move || drop(guard)).join().expect("no panic");
    eventually("released outside a runtime", free).await;

    let guard = locks.lock("k").await.unwrap();
    let panicking = tokio::spawn(async move {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("a bug in the work"));
    });
    assert!(panicking.await.unwrap_err().is_panic());
    eventually("released by a panic", free).await;

    let guard = locks.lock("k").await.unwrap();
    let panicking = std::thread::spawn(move || {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("a bug in the work"));
    });
    assert!(panicking.join().is_err());
    eventually("released by a panic outside a runtime", free).await;

    let outcome = tokio::spawn(locks.lock("k").run(|_| async {
        std::panic::resume_unwind(Box::new("a bug in the work"));
    }))
    .await;
    assert!(outcome.map(|_: Result<(), _>| ()).unwrap_err().is_panic());
    eventually("released by a panic in `run`", free).await;
    nothing_left(&server, [locks]).await;
}

/// Counts drops of a guard that went well and drops that panicked.
struct Watched(Option<LockGuard>, Arc<[AtomicUsize; 2]>);

impl Drop for Watched {
    fn drop(&mut self) {
        let guard = self.0.take();
        let panicked = catch_unwind(AssertUnwindSafe(|| drop(guard))).is_err();
        self.1[usize::from(panicked)].fetch_add(1, Ordering::SeqCst);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Waits without a runtime.
fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "still not: {what}");
        std::thread::sleep(ms(2));
    }
}

/// F19 (V6): guards that a runtime drops while it shuts down neither panic nor block; the keys
/// are free with their lease at the latest.
#[test]
fn guards_dropped_during_the_shutdown_of_their_runtime_neither_panic_nor_block() {
    let server = RedisServer::start();
    let runtime = runtime();
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let locks = runtime.block_on(connect(&server.url(), ms(400)));
    let url = server.url();
    for n in 0..10 {
        let guard = runtime.block_on(locks.lock(format!("k:{n}")).acquire()).unwrap();
        let watched = Watched(Some(guard), counts.clone());
        drop(runtime.spawn(async move {
            let _watched = watched;
            std::future::pending::<()>().await;
        }));
    }
    // A waiter that nobody will ever answer, too.
    let waiting = runtime.block_on(async { connect(&url, ms(400)).await }).lock("k:0").acquire();
    drop(runtime.spawn(waiting));
    let start = Instant::now();
    drop(runtime);
    assert!(start.elapsed() < ms(2_000), "{:?}", start.elapsed());
    let counts = [counts[0].load(Ordering::SeqCst), counts[1].load(Ordering::SeqCst)];
    assert_eq!(counts, [10, 0], "dropped, panicked");
    // The line of a process that is gone lives 15 s at most.
    let line = |name: &str| name.ends_with(":queue") || name.ends_with(":due");
    until("all leases have ended", || {
        let mut left = server.keys().into_iter().filter(|key| !key.is_clock());
        left.all(|key| line(&key.name) && key.ttl_ms.is_some_and(|ttl| ttl <= 15_000))
    });
    drop(locks);
    until("nobody is connected", || server.channels().is_empty());
}

/// F19 (V3, V6): a guard that outlives its runtime is kept by the conductor, and neither its drop
/// nor its release panics or blocks.
#[test]
fn a_guard_that_outlives_its_runtime_is_kept_and_can_be_given_back() {
    let server = RedisServer::start();
    let first = runtime();
    let locks = first.block_on(connect(&server.url(), ms(400)));
    let dropped = first.block_on(locks.lock("dropped").acquire()).unwrap();
    let released = first.block_on(locks.lock("released").acquire()).unwrap();
    first.shutdown_background();
    let renewals = locks.stats().renewals;
    until("three leases of renewals", || locks.stats().renewals >= renewals + 18);
    assert!(dropped.is_held() && released.is_held());
    drop(dropped);
    runtime().block_on(async {
        within("the release", released.release()).await.unwrap();
        nothing_left(&server, [locks]).await;
    });
}

/// F19 (V3): a client that outlives its runtime serves another one, renewals included.
#[test]
fn a_client_that_outlives_its_runtime_serves_another() {
    let server = RedisServer::start();
    let first = runtime();
    let locks = first.block_on(connect(&server.url(), ms(600)));
    first.block_on(async { locks.lock("k").await.unwrap().release().await.unwrap() });
    drop(first);
    runtime().block_on(async {
        let guard = locks.lock("k").await.unwrap();
        eventually("two leases of renewals", || locks.stats().renewals >= 6).await;
        assert!(guard.is_held());
        guard.release().await.unwrap();
        nothing_left(&server, [locks]).await;
    });
}

/// F36 (V4, V6, V8): one task that locks a key twice without a scope ends at its budget, and the
/// error names its own hold.
#[tokio::test]
async fn a_task_that_locks_a_key_twice_is_told_that_it_holds_it_itself() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(2_000)).await;
    let guard = locks.lock("k").await.unwrap();
    let start = Instant::now();
    let error = locks.lock("k").wait(ms(150)).retries(1).await.unwrap_err();
    // Two waits, with the pause between them.
    assert!(start.elapsed() < ms(300) + LATE, "{:?}", start.elapsed());
    let AcquireError::Timeout(timeout) = &error else { panic!("{error:?}") };
    assert_eq!(timeout.blocked_by(), &BlockedBy::ThisClient { token: guard.token() });
    assert!(error.to_string().contains(&guard.token().to_string()), "{error}");
    assert!(locks.lock("k").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F36 (V6): the same called under the first guard re-enters.
#[tokio::test]
async fn a_key_that_is_locked_again_under_its_guard_is_re_entered() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(2_000)).await;
    let outer = locks.lock("k").await.unwrap();
    let inner = outer.scope(locks.lock("k").wait(ms(150)).acquire()).await.unwrap();
    assert_eq!(inner.token(), outer.token());
    outer.release().await.unwrap();
    assert!(inner.is_held() && server.key("lock:{k}").is_some());
    inner.release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// What Redis can renew in time is a bound that the client tells before anything is sent.
#[tokio::test]
async fn a_lease_under_100_ms_is_refused_by_name() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(2_000)).await;
    assert_eq!(locks.capabilities().lease_min, ms(100));
    let error = locks.lock("k").lease(ms(99)).await.unwrap_err();
    assert!(error.is_rejected() && error.to_string().contains("lease is 99ms"), "{error}");
    locks.lock("k").lease(ms(100)).await.unwrap().release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F36 (V4, V6, V8): two processes that take two keys in opposite order end at their budgets, and
/// both keys are free afterwards.
#[tokio::test]
async fn two_keys_in_opposite_order_end_at_the_budget() {
    let server = RedisServer::start();
    let a = connect(&server.url(), ms(2_000)).await;
    let b = connect(&server.url(), ms(2_000)).await;
    let (x, y) = (a.lock("x").await.unwrap(), b.lock("y").await.unwrap());
    let start = Instant::now();
    let (wants_y, wants_x) =
        tokio::join!(a.lock("y").wait(ms(300)).acquire(), b.lock("x").wait(ms(300)).acquire());
    assert!(start.elapsed() < ms(300) + LATE, "{:?}", start.elapsed());
    for error in [wants_y.unwrap_err(), wants_x.unwrap_err()] {
        let AcquireError::Timeout(timeout) = &error else { panic!("{error:?}") };
        assert!(matches!(timeout.blocked_by(), BlockedBy::Others { .. }), "{error}");
        assert!(timeout.waited() >= ms(300) && timeout.tries() == 1);
    }
    assert!(x.is_held() && y.is_held());
    x.release().await.unwrap();
    y.release().await.unwrap();
    for key in ["x", "y"] {
        a.lock(key).await.unwrap().release().await.unwrap();
    }
    nothing_left(&server, [a, b]).await;
}
