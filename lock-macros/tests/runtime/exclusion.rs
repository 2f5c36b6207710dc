//! One body at a time, from its first to its last step, however it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::{AcquireError, LockClient, distributed_lock};
use tokio::sync::Notify;

use crate::{holder, is_held};

type Outcome<T = ()> = Result<T, AcquireError>;

#[derive(Default)]
struct Seen {
    inside: AtomicU32,
    most: AtomicU32,
    calls: AtomicU32,
}

#[distributed_lock(key = "sku:{sku}", client = locks, wait = "1h")]
async fn buy(locks: LockClient, sku: u8, seen: Arc<Seen>) -> Outcome {
    let inside = seen.inside.fetch_add(1, Ordering::SeqCst) + 1;
    seen.most.fetch_max(inside, Ordering::SeqCst);
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    seen.calls.fetch_add(1, Ordering::SeqCst);
    seen.inside.fetch_sub(1, Ordering::SeqCst);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bodies_with_one_key_never_overlap() {
    let locks = LockClient::memory();
    let seen = Arc::new(Seen::default());
    let tasks: Vec<_> =
        (0..100).map(|_| tokio::spawn(buy(locks.clone(), 1, seen.clone()))).collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(seen.most.load(Ordering::SeqCst), 1);
    assert_eq!(seen.calls.load(Ordering::SeqCst), 100);
    assert_eq!(locks.stats().held, 0);
}

#[distributed_lock(key = "meet:{id}", client = locks)]
async fn meet(locks: &LockClient, id: u8, barrier: &tokio::sync::Barrier) -> Outcome {
    barrier.wait().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn bodies_with_different_keys_run_side_by_side() {
    let locks = LockClient::memory();
    let barrier = tokio::sync::Barrier::new(2);
    let (a, b) = tokio::join!(meet(&locks, 1, &barrier), meet(&locks, 2, &barrier));
    a.and(b).unwrap();
}

#[derive(Debug, PartialEq)]
enum AppError {
    Lock,
    Parse,
}

impl From<AcquireError> for AppError {
    fn from(_: AcquireError) -> Self {
        Self::Lock
    }
}

impl From<std::num::ParseIntError> for AppError {
    fn from(_: std::num::ParseIntError) -> Self {
        Self::Parse
    }
}

#[distributed_lock(key = "parse", client = locks)]
async fn parse(locks: &LockClient, text: &str) -> Result<u8, AppError> {
    if text.is_empty() {
        return Ok(0);
    }
    assert!(text != "panic");
    let number: u8 = text.parse()?;
    Ok(number)
}

#[tokio::test(start_paused = true)]
async fn the_lock_is_free_again_however_the_body_ends() {
    let locks = LockClient::memory();
    assert_eq!(parse(&locks, "").await, Ok(0));
    assert!(!is_held(&locks, "parse").await, "after an early return");
    assert_eq!(parse(&locks, "x").await, Err(AppError::Parse));
    assert!(!is_held(&locks, "parse").await, "after `?`");
    assert_eq!(parse(&locks, "7").await, Ok(7));
    assert!(!is_held(&locks, "parse").await, "after the last line");
    let clone = locks.clone();
    tokio::spawn(async move { parse(&clone, "panic").await }).await.unwrap_err();
    assert!(!is_held(&locks, "parse").await, "after a panic");
}

#[distributed_lock(key = "stay", client = locks)]
async fn stay(locks: &LockClient, entered: &Notify) -> Outcome {
    entered.notify_one();
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_releases_the_lock() {
    let locks = LockClient::memory();
    let entered = Notify::new();
    tokio::select! {
        _ = stay(&locks, &entered) => unreachable!("it stays"),
        () = async {
            entered.notified().await;
            assert!(is_held(&locks, "stay").await);
        } => {}
    }
    assert!(!is_held(&locks, "stay").await);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_while_it_waits_leaves_nobody_in_line() {
    let locks = LockClient::memory();
    let guard = holder(&locks, "stay").await;
    let entered = Notify::new();
    tokio::select! {
        biased;
        _ = stay(&locks, &entered) => unreachable!("somebody else holds it"),
        () = async { while locks.stats().waiters == 0 { tokio::task::yield_now().await } } => {}
    }
    guard.release().await.unwrap();
    assert!(!is_held(&locks, "stay").await);
    assert_eq!(locks.stats().waiters, 0);
}

#[distributed_lock(key = "outer", client = locks, guard = outer)]
async fn outer(locks: &LockClient) -> Outcome {
    let token = inner(locks).await?;
    assert_eq!(token, outer.token());
    assert!(is_held_outside(locks).await, "the inner call's end does not end the outer hold");
    Ok(())
}

#[distributed_lock(key = "outer", client = locks, guard = inner)]
async fn inner(locks: &LockClient) -> Outcome<lock_core::FencingToken> {
    Ok(inner.token())
}

async fn is_held_outside(locks: &LockClient) -> bool {
    let locks = locks.clone();
    tokio::spawn(async move { is_held(&locks, "outer").await }).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_re_enters_with_the_same_token() {
    let locks = LockClient::memory();
    outer(&locks).await.unwrap();
    assert!(!is_held(&locks, "outer").await);
}

#[distributed_lock(key = "outer", client = locks)]
async fn outer_of_strict(locks: &LockClient) -> Outcome<Outcome> {
    Ok(strict(locks).await)
}

#[distributed_lock(key = "outer", client = locks, reentrant = false)]
async fn strict(locks: &LockClient) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn without_reentrancy_a_nested_call_waits_like_any_other() {
    let locks = LockClient::memory();
    assert!(outer_of_strict(&locks).await.unwrap().unwrap_err().is_timeout());
}

#[distributed_lock(key = "sibling", client = locks)]
async fn sibling(locks: &LockClient, inside: &AtomicUsize) -> Outcome<usize> {
    let others = inside.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(10)).await;
    inside.fetch_sub(1, Ordering::SeqCst);
    Ok(others)
}

#[distributed_lock(key = "{key}", client = locks)]
async fn parent(locks: &LockClient, key: &str) -> Outcome<usize> {
    let inside = AtomicUsize::new(0);
    let (one, two, late) = tokio::join!(sibling(locks, &inside), sibling(locks, &inside), async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        sibling(locks, &inside).await
    });
    Ok(one? + two? + late?)
}

#[tokio::test(start_paused = true)]
async fn calls_side_by_side_never_run_together_whether_or_not_their_caller_has_the_key() {
    let locks = LockClient::memory();
    for key in ["other", "sibling"] {
        assert_eq!(parent(&locks, key).await.unwrap(), 0, "{key}");
    }
}
