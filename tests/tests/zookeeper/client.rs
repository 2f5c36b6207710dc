//! What the application does to its own locks, and to the runtime of its client.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lock_core::{AcquireError, BlockedBy, LockGuard, LostCause};
use tests::wait::{eventually, within};
use tokio::runtime::{Builder, Runtime};

use crate::support::*;

/// F19 (V6): a guard that is dropped, in its runtime, on a thread without one, or by a panic, is
/// released at once, in the living session.
#[tokio::test]
async fn a_dropped_guard_is_released_wherever_it_is_dropped() {
    let server = Zoo::start().await;
    let locks = connect(&server.at(LONG)).await;
    let free = || server.line("k").is_empty();

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
    assert_eq!(server.sessions().len(), 1, "the session lives");
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

fn runtime() -> Runtime {
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

/// F19 (V6): guards and waiters that a runtime drops while it shuts down neither panic nor block;
/// the keys are free with the session at the latest.
#[test]
fn guards_dropped_during_the_shutdown_of_their_runtime_neither_panic_nor_block() {
    let runtime = runtime();
    let server = runtime.block_on(Zoo::start());
    let url = server.at(SHORT);
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let locks = runtime.block_on(connect(&url));
    for n in 0..10 {
        let guard = runtime.block_on(locks.lock(format!("k:{n}")).acquire()).unwrap();
        let watched = Watched(Some(guard), counts.clone());
        drop(runtime.spawn(async move {
            let _watched = watched;
            std::future::pending::<()>().await;
        }));
    }
    let waiting = runtime.block_on(connect(&url)).lock("k:0").acquire();
    drop(runtime.spawn(waiting));
    runtime.block_on(server.line_of("k:0", 2));
    let start = Instant::now();
    drop(runtime);
    assert!(start.elapsed() < ms(2_000), "{:?}", start.elapsed());
    let counts = [counts[0].load(Ordering::SeqCst), counts[1].load(Ordering::SeqCst)];
    assert_eq!(counts, [10, 0], "dropped, panicked");
    drop(locks);
    until("all sessions have ended", || server.sessions().is_empty());
    until("the tree is empty", || server.tree("/").is_empty());
}

/// F19 (V3, V6): a guard that outlives its runtime is lost, says so, and neither its drop nor its
/// release panics or blocks.
#[test]
fn a_guard_that_outlives_its_runtime_is_lost_and_can_still_be_dropped() {
    let first = runtime();
    let server = first.block_on(Zoo::start());
    let locks = first.block_on(connect(&server.at(SHORT)));
    let dropped = first.block_on(locks.lock("dropped").acquire()).unwrap();
    let released = first.block_on(locks.lock("released").acquire()).unwrap();
    first.shutdown_background();
    until("the loss", || !dropped.is_held() && !released.is_held());
    drop(dropped);
    runtime().block_on(async {
        within("the loss", released.lost()).await;
        let error = within("the release", released.release()).await.unwrap_err();
        assert!(error.is_not_held(), "{error}");
    });
    assert_eq!(locks.stats().keys, 0);
    until("the tree is empty", || server.tree("/").is_empty());
}

/// F19 (V2, V3): a client that outlives its runtime serves another one with a new session.
#[test]
fn a_client_that_outlives_its_runtime_serves_another() {
    let first = runtime();
    let server = first.block_on(Zoo::start());
    let locks = first.block_on(connect(&server.at(SHORT)));
    let token = first.block_on(async {
        let guard = locks.lock("k").await.unwrap();
        let token = guard.token();
        guard.release().await.unwrap();
        token
    });
    drop(first);
    runtime().block_on(async {
        let start = Instant::now();
        let guard = locks.lock("k").await.unwrap();
        assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
        assert!(guard.token() > token);
        eventually("renewals", || locks.stats().renewals >= 6).await;
        assert!(guard.is_held());
        guard.release().await.unwrap();
        nothing_left(&server, [locks]).await;
    });
}

/// F19 (V2, V3, V4, V6): while a client holds and waits in one runtime, the other one ends that
/// made its session: the holder is told, the waiter gets into line with a new session, and
/// nothing hangs.
#[test]
fn the_end_of_the_runtime_that_made_the_session_is_told_to_the_others() {
    let first = runtime();
    let server = first.block_on(Zoo::start());
    let locks = first.block_on(connect(&server.at(SHORT)));
    runtime().block_on(async {
        let rival = connect(&server.at(LONG)).await;
        let theirs = rival.lock("theirs").await.unwrap();
        let ours = locks.lock("ours").await.unwrap();
        let waiting = tokio::spawn(locks.lock("theirs").acquire());
        server.line_of("theirs", 2).await;
        let old = server.line("theirs")[1].clone();
        first.shutdown_background();
        let lost = within("the loss", ours.lost()).await;
        assert!(matches!(lost.cause(), LostCause::Taken | LostCause::Expired), "{lost}");
        assert!(within("the release", ours.release()).await.unwrap_err().is_not_held());
        eventually("it is in line again", || {
            server.line("theirs").len() == 2 && server.line("theirs")[1] != old
        })
        .await;
        theirs.release().await.unwrap();
        let guard = within("the grant", waiting).await.unwrap().unwrap();
        guard.release().await.unwrap();
        // Free with the old session, whose farewell nobody sent.
        locks.lock("ours").await.unwrap().release().await.unwrap();
        nothing_left(&server, [locks, rival]).await;
    });
}

/// F02 (V2, V3, V6): a hold whose own runtime is blocked past its lease, while that of the session
/// goes on, does not last as long as the session: its node is taken away at the end of its lease.
#[test]
fn the_node_of_a_hold_that_nobody_renews_is_taken_away_though_its_session_lives() {
    let sessions = runtime();
    let server = sessions.block_on(Zoo::start());
    let locks = sessions.block_on(connect_with(&server.at(LONG), ms(600)));
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let holder = std::thread::spawn(move || {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async move {
            let guard = locks.lock("k").await.unwrap();
            // All that this runtime does.
            blocked.recv().expect("the test goes on");
            assert!(!guard.is_held());
            let error = within("the release", guard.release()).await.unwrap_err();
            assert!(error.is_not_held(), "{error}");
        });
    });
    sessions.block_on(async {
        server.line_of("k", 1).await;
        server.line_of("k", 0).await;
        assert_eq!(server.sessions().len(), 1, "the session lives");
        the_next_one_proceeds(&server, "k").await;
    });
    unblock.send(()).unwrap();
    holder.join().expect("the holder was told");
    until("all sessions have ended", || server.sessions().is_empty());
}

/// F19 (V5, V6): the holds and waits of a runtime that ends are taken out of the line at once,
/// though the session lives on in another.
#[test]
fn what_a_runtime_held_and_waited_for_goes_with_it_though_its_session_lives() {
    let sessions = runtime();
    let server = sessions.block_on(Zoo::start());
    let locks = sessions.block_on(connect(&server.at(LONG)));
    let rival = sessions.block_on(connect(&server.at(LONG)));
    let theirs = sessions.block_on(rival.lock("theirs").acquire()).unwrap();
    let ending = runtime();
    let ours = ending.block_on(locks.lock("ours").acquire()).unwrap();
    drop(ending.spawn(locks.lock("theirs").acquire()));
    sessions.block_on(server.line_of("theirs", 2));
    ending.shutdown_background();
    sessions.block_on(async {
        server.line_of("theirs", 1).await;
        the_next_one_proceeds(&server, "ours").await;
        assert_eq!(server.sessions().iter().filter(|one| one.connected).count(), 2);
        assert!(!ours.is_held());
        drop(ours);
        theirs.release().await.unwrap();
        nothing_left(&server, [locks, rival]).await;
    });
}

/// F20 (V6, V8): a shutdown refuses what is new, ends what waits, and tells and withdraws what is
/// held when its time is up.
#[tokio::test]
async fn a_shutdown_gives_everything_back_and_says_so() {
    let server = Zoo::start().await;
    let locks = connect(&server.at(LONG)).await;
    let rival = connect(&server.at(LONG)).await;
    let theirs = rival.lock("theirs").await.unwrap();
    let ours = locks.lock("ours").await.unwrap();
    let waiting = tokio::spawn(locks.lock("theirs").acquire());
    server.line_of("theirs", 2).await;
    let report = locks.shutdown(ms(200)).await;
    assert_eq!((report.abandoned, report.complete), (1, true));
    assert_eq!(within("the loss", ours.lost()).await.cause(), LostCause::Shutdown);
    assert!(waiting.await.unwrap().unwrap_err().is_closed());
    assert!(locks.lock("new").await.unwrap_err().is_closed());
    assert_eq!((server.line("ours").len(), server.line("theirs").len()), (0, 1));
    theirs.release().await.unwrap();
    drop(ours);
    nothing_left(&server, [locks, rival]).await;
}

/// F36 (V4, V6, V8): one task that locks a key twice without a scope ends at its budget, and the
/// error names its own hold; under its guard it re-enters, with one node.
#[tokio::test]
async fn a_task_that_locks_a_key_twice_is_told_or_re_enters() {
    let server = Zoo::start().await;
    let locks = connect(&server.at(LONG)).await;
    let guard = locks.lock("k").await.unwrap();
    let error = locks.lock("k").wait(ms(150)).await.unwrap_err();
    let AcquireError::Timeout(timeout) = &error else { panic!("{error:?}") };
    assert_eq!(timeout.blocked_by(), &BlockedBy::ThisClient { token: guard.token() });
    guard.release().await.unwrap();
    let outer = locks.lock("k").await.unwrap();
    let inner = outer.scope(locks.lock("k").wait(ms(150)).acquire()).await.unwrap();
    assert_eq!((inner.token(), server.line("k").len()), (outer.token(), 1));
    outer.release().await.unwrap();
    assert!(inner.is_held() && server.line("k").len() == 1);
    inner.release().await.unwrap();
    assert!(server.line("k").is_empty());
    nothing_left(&server, [locks]).await;
}
