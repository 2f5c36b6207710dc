//! What the application does to its own locks, and to the runtime of its client.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lock_core::{
    AcquireError, Background, BlockedBy, LockClient, LockGuard, LockOptions, LossReason,
};
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
/// the keys are free at once, in the living session.
#[test]
fn guards_dropped_during_the_shutdown_of_their_runtime_neither_panic_nor_block() {
    let runtime = runtime();
    let server = runtime.block_on(Zoo::start());
    let url = server.at(LONG);
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
    until("the keys are free", || (0..10).all(|n| server.line(&format!("k:{n}")).is_empty()));
    until("the waiter's client is gone", || server.sessions().len() == 1);
    assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    drop(locks);
    until("all sessions have ended", || server.sessions().is_empty());
    until("the tree is empty", || server.tree("/").is_empty());
}

/// F19 (V1, V2, V3, V6): a hold outlives the runtime that its client was made in, and that it was
/// taken in. It is dropped and released as ever.
#[test]
fn a_hold_outlives_its_runtime() {
    let first = runtime();
    let server = first.block_on(Zoo::start());
    let locks = first.block_on(connect(&server.at(SHORT)));
    let dropped = first.block_on(locks.lock("dropped").acquire()).unwrap();
    let released = first.block_on(locks.lock("released").acquire()).unwrap();
    let token = released.token();
    let sessions = server.sessions();
    first.shutdown_background();
    runtime().block_on(async {
        let rival = connect(&server.at(LONG)).await;
        let error = rival.lock("released").wait(SHORT + TICK * 2).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
    });
    let renewals = locks.stats().renewals;
    until("renewals", || locks.stats().renewals > renewals + 2);
    assert!(dropped.is_held() && released.is_held());
    assert_eq!(released.token(), token);
    drop(dropped);
    until("it is given up without a runtime", || server.line("dropped").is_empty());
    assert!(server.sessions().iter().any(|session| session.id == sessions[0].id));
    runtime().block_on(async {
        within("the release", released.release()).await.unwrap();
        nothing_left(&server, [locks]).await;
    });
}

/// F19 (V2, V3): a client that outlives its runtime serves another one, in the same session.
#[test]
fn a_client_that_outlives_its_runtime_serves_another() {
    let first = runtime();
    let server = first.block_on(Zoo::start());
    let locks = first.block_on(connect(&server.at(SHORT)));
    let session = server.sessions()[0].id;
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
        assert!(guard.is_held(), "{:?}", guard.handle().why_lost());
        assert_eq!(server.holder("k").map(|(session, _)| session), Some(session));
        guard.release().await.unwrap();
        nothing_left(&server, [locks]).await;
    });
}

/// F19 (V1, V2, V3, V4, V6): while a client holds and waits in one runtime, the other one ends that
/// made its session: nothing comes of it. When the session itself ends, the holder is told, the
/// waiter gets into line with a new session, and nothing hangs.
#[test]
fn the_end_of_the_runtime_that_made_the_session_is_not_the_end_of_the_session() {
    let first = runtime();
    let server = first.block_on(Zoo::start());
    let locks = first.block_on(connect(&server.at(SHORT)));
    runtime().block_on(async {
        let rival = connect(&server.at(LONG)).await;
        let theirs = rival.lock("theirs").await.unwrap();
        let ours = locks.lock("ours").await.unwrap();
        let waiting = tokio::spawn(locks.lock("theirs").acquire());
        server.line_of("theirs", 2).await;
        let (line, held) = (server.line("theirs"), server.holder("ours"));
        first.shutdown_background();
        let error = rival.lock("ours").wait(SHORT + TICK * 2).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert!(ours.is_held() && !waiting.is_finished());
        assert_eq!((server.line("theirs"), server.holder("ours")), (line.clone(), held));
        let (session, _) = held.expect("it is held");

        server.expire_session(session);
        let lost = within("the loss", ours.lost()).await;
        assert!(matches!(lost.reason(), LossReason::Taken | LossReason::Expired), "{lost}");
        assert!(within("the release", ours.release()).await.unwrap_err().is_not_held());
        eventually("it is in line again", || {
            server.line("theirs").len() == 2 && server.line("theirs")[1] != line[1]
        })
        .await;
        theirs.release().await.unwrap();
        let guard = within("the grant", waiting).await.unwrap().unwrap();
        guard.release().await.unwrap();
        locks.lock("ours").await.unwrap().release().await.unwrap();
        nothing_left(&server, [locks, rival]).await;
    });
}

/// F02 (V2, V3, V6): a hold that nobody renews, as the runtime is blocked that was to, does not last
/// as long as the session, which goes on: its node is taken away at the end of its lease.
#[test]
fn the_node_of_a_hold_that_nobody_renews_is_taken_away_though_its_session_lives() {
    let sessions = runtime();
    let server = sessions.block_on(Zoo::start());
    let options = LockOptions::new().with_lease(ms(600));
    let client = LockClient::builder(server.at(LONG)).defaults(options);
    let locks = sessions.block_on(client.background(Background::Runtime).connect()).unwrap();
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let holder = std::thread::spawn(move || {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async move {
            let guard = locks.lock("k").await.unwrap();
            // All that this runtime does.
            blocked.recv().expect("the test goes on");
            assert!(!guard.is_held());
            let error = within("the release", guard.release()).await.unwrap_err();
            assert!(error.is_not_held(), "{error}");
            // Nobody else would see to what is left to do.
            eventually("no key is busy", || locks.stats().keys == 0).await;
            drop(locks);
            ended.await.expect("the test goes on");
        });
    });
    sessions.block_on(async {
        server.line_of("k", 1).await;
        server.line_of("k", 0).await;
        assert_eq!(server.sessions().len(), 1, "the session lives");
        the_next_one_proceeds(&server, "k").await;
    });
    unblock.send(()).unwrap();
    until("all sessions have ended", || server.sessions().is_empty());
    end.send(()).unwrap();
    holder.join().expect("the holder was told");
}

/// F19 (V1, V5, V6): what a runtime that ends has waited for is taken out of the line at once, and
/// what it held stays until its guard goes.
#[test]
fn what_a_runtime_waited_for_goes_with_it_and_what_it_held_with_its_guard() {
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
        assert!(ours.is_held() && server.line("ours").len() == 1);
        drop(ours);
        the_next_one_proceeds(&server, "ours").await;
        let linked = || server.sessions().iter().filter(|one| one.connected).count();
        eventually("no more than the two sessions", || linked() == 2).await;
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
    assert_eq!(within("the loss", ours.lost()).await.reason(), LossReason::Shutdown);
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
