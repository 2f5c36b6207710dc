//! F19, F20 and F36: what the application does to its own locks, and to its runtimes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_core::error::{BlockedBy, LossReason};
use lock_core::{AcquireError, LockGuard};

use super::*;
use crate::blocked::{alone, workers};

/// F19 (V6): in its runtime, on a thread without one, or by a panic, it is released at once.
pub(crate) async fn a_dropped_guard_is_released_wherever_it_is_dropped(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    let bug = || std::panic::resume_unwind(Box::new("a bug in the work"));

    drop(locks.lock(&key).await.expect("a free key"));
    stage.the_next_one_proceeds(&key).await;

    let guard = locks.lock(&key).await.expect("a free key");
    std::thread::spawn(move || drop(guard)).join().expect("no panic");
    stage.the_next_one_proceeds(&key).await;

    let guard = locks.lock(&key).await.expect("a free key");
    let panicking = tokio::spawn(async move {
        let _guard = guard;
        bug();
    });
    assert!(panicking.await.expect_err("a panic").is_panic());
    stage.the_next_one_proceeds(&key).await;

    let guard = locks.lock(&key).await.expect("a free key");
    let panicking = std::thread::spawn(move || {
        let _guard = guard;
        bug();
    });
    assert!(panicking.join().is_err());
    stage.the_next_one_proceeds(&key).await;

    let work = locks.lock(&key).run(move |_| async move { bug() });
    let panicking: Result<Result<(), _>, _> = tokio::spawn(work).await;
    assert!(panicking.map(|_| ()).expect_err("a panic").is_panic());
    stage.the_next_one_proceeds(&key).await;
    stage.nothing_left([locks]).await;
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

/// F19 (V6): guards and waiters that a runtime drops while it shuts down neither panic nor block;
/// the keys are free with their lease at the latest.
pub(crate) fn guards_dropped_during_the_shutdown_of_their_runtime_neither_panic_nor_block(
    stage: &mut Stage<'_>,
) {
    let runtime = workers(1);
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let locks = runtime.block_on(stage.client(Tempo::Brisk));
    let keys: Vec<_> = (0..10).map(|n| stage.key(&format!("{n}"))).collect();
    for key in &keys {
        let guard = runtime.block_on(locks.lock(key).acquire()).expect("a free key");
        let watched = Watched(Some(guard), counts.clone());
        drop(runtime.spawn(async move {
            let _watched = watched;
            std::future::pending::<()>().await;
        }));
    }
    // A waiter that nobody will ever answer, too.
    let waiter = runtime.block_on(stage.client(Tempo::Brisk));
    let Client { locks: waits, line } = waiter;
    drop(runtime.spawn(waits.lock(&keys[0]).acquire()));
    drop(waits);
    runtime.block_on(stage.in_line(&keys[0], 1));
    let began = Stopwatch::start();
    drop(runtime);
    assert!(began.own() < ms(2_000), "{:?}", began.elapsed());
    let counts = [counts[0].load(Ordering::SeqCst), counts[1].load(Ordering::SeqCst)];
    assert_eq!(counts, [10, 0], "dropped, panicked");
    alone().block_on(async {
        for key in &keys {
            stage.free(key).await;
        }
        line.closed().await;
        stage.gone(locks).await;
    });
}

/// F19 (V1, V2, V3, V6): a hold outlives the runtime that its client was made in, and that it was
/// taken in: the conductor keeps it. It is dropped and released as ever.
pub(crate) fn a_guard_that_outlives_its_runtime_is_kept_and_can_be_given_back(
    stage: &mut Stage<'_>,
) {
    let first = workers(1);
    let locks = first.block_on(stage.client(Tempo::Steady));
    let keys = ["dropped", "released"].map(|name| stage.key(name));
    let take = |key: &String| first.block_on(locks.lock(key).acquire()).expect("a free key");
    let [dropped, released] = keys.each_ref().map(take);
    let token = released.token();
    first.shutdown_background();
    alone().block_on(async {
        let rival = stage.client(Tempo::Patient).await;
        let wait = stage.times(Tempo::Steady).freed_within + ms(500);
        let error = rival.lock(&keys[1]).wait(wait).await.expect_err("it is held");
        assert!(error.is_timeout(), "{error}");
        stage.gone(rival).await;
    });
    assert!(dropped.is_held() && released.is_held());
    assert_eq!(released.token(), token);
    drop(dropped);
    alone().block_on(async {
        stage.free(&keys[0]).await;
        within("the release", released.release()).await.expect("a release");
        stage.nothing_left([locks]).await;
    });
}

/// F19 (V2, V3): renewals included.
pub(crate) fn a_client_that_outlives_its_runtime_serves_another(stage: &mut Stage<'_>) {
    let (first, key) = (workers(1), stage.key("k"));
    let locks = first.block_on(stage.client(Tempo::Steady));
    let token = first.block_on(async {
        let guard = locks.lock(&key).await.expect("a free key");
        let token = guard.token();
        guard.release().await.expect("a release");
        token
    });
    drop(first);
    alone().block_on(async {
        let guard = locks.lock(&key).await.expect("a free key");
        assert!(guard.token() > token);
        let renewals = locks.stats().renewals;
        eventually("two leases of renewals", || locks.stats().renewals >= renewals + 6).await;
        assert!(guard.is_held(), "{:?}", guard.handle().why_lost());
        guard.release().await.expect("a release");
        stage.nothing_left([locks]).await;
    });
}

/// F20 (V6, V8): it refuses what is new, ends what waits, and tells and withdraws what is held when
/// its time is up.
pub(crate) async fn a_shutdown_gives_everything_back_and_says_so(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Patient).await;
    let rival = stage.client(Tempo::Patient).await;
    let [ours, theirs] = ["ours", "theirs"].map(|name| stage.key(name));
    let held_there = rival.lock(&theirs).await.expect("a free key");
    let held_here = locks.lock(&ours).await.expect("a free key");
    let waiting = tokio::spawn(locks.lock(&theirs).acquire());
    stage.in_line(&theirs, 1).await;
    let report = locks.shutdown(ms(200)).await;
    assert_eq!((report.abandoned, report.complete), (1, true));
    assert_eq!(within("the loss", held_here.lost()).await.reason(), LossReason::Shutdown);
    assert!(waiting.await.expect("no panic").expect_err("it is closed").is_closed());
    assert!(locks.lock("new").await.expect_err("it is closed").is_closed());
    stage.free(&ours).await;
    stage.in_line(&theirs, 0).await;
    held_there.release().await.expect("a release");
    drop(held_here);
    stage.nothing_left([locks, rival]).await;
}

/// F36 (V4, V6, V8): one task that locks a key twice without a scope ends at its budget, and the
/// error names its own hold; under its guard it re-enters, with one claim.
pub(crate) async fn a_task_that_locks_a_key_twice_is_told_or_re_enters(stage: &mut Stage<'_>) {
    let locks = stage.client(Tempo::Patient).await;
    let key = stage.key("k");
    let guard = locks.lock(&key).await.expect("a free key");
    let began = Stopwatch::start();
    let answer = locks.lock(&key).wait(ms(150)).retries(1).await;
    // Two waits, with the pause between them.
    assert!(began.own() < ms(300) + LATE, "{:?}", began.elapsed());
    let error = answer.expect_err("it is held");
    let AcquireError::Timeout(timeout) = &error else { panic!("{error:?}") };
    assert_eq!(timeout.blocked_by(), &BlockedBy::ThisClient { token: guard.token() });
    assert!(error.to_string().contains(&guard.token().to_string()), "{error}");
    assert!(locks.lock(&key).try_acquire().await.expect("an answer").is_none());
    guard.release().await.expect("a release");
    let outer = locks.lock(&key).await.expect("a free key");
    let inner = outer.scope(locks.lock(&key).wait(ms(150)).acquire()).await.expect("re-entry");
    assert_eq!(inner.token(), outer.token());
    outer.release().await.expect("a release");
    assert!(inner.is_held() && !stage.is_free(&key));
    assert_eq!(stage.layout().in_line(&stage.scope, &key), 0, "one claim");
    inner.release().await.expect("a release");
    stage.nothing_left([locks]).await;
}

/// F36 (V4, V6, V8): two processes that take two keys in opposite order end at their budgets, and
/// both keys are free afterwards.
pub(crate) async fn two_keys_in_opposite_order_end_at_the_budget(stage: &mut Stage<'_>) {
    let a = stage.client(Tempo::Patient).await;
    let b = stage.client(Tempo::Patient).await;
    let [x, y] = ["x", "y"].map(|name| stage.key(name));
    let has_x = a.lock(&x).await.expect("a free key");
    let has_y = b.lock(&y).await.expect("a free key");
    // Long enough for a busy store to say that others have it.
    let wait = ms(3_000);
    let began = Stopwatch::start();
    let (wants_y, wants_x) =
        tokio::join!(a.lock(&y).wait(wait).acquire(), b.lock(&x).wait(wait).acquire());
    assert!(began.own() < wait + SLACK, "{:?}", began.elapsed());
    for error in [wants_y.expect_err("it is held"), wants_x.expect_err("it is held")] {
        let AcquireError::Timeout(timeout) = &error else { panic!("{error:?}") };
        assert!(matches!(timeout.blocked_by(), BlockedBy::Others { .. }), "{error}");
        assert!(timeout.waited() >= wait && timeout.tries() == 1);
    }
    assert!(has_x.is_held() && has_y.is_held());
    has_x.release().await.expect("a release");
    has_y.release().await.expect("a release");
    for key in [x, y] {
        a.lock(&key).await.expect("a free key").release().await.expect("a release");
    }
    stage.nothing_left([a, b]).await;
}
