//! What happens to the body when its lock is lost. The hold limit takes it away on time.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lock_core::FromLockError;
use lock_core::error::LossReason;
use lock_core::{AcquireError, LockClient, distributed_lock};
use tokio::sync::Notify;

use crate::is_held;

type Outcome<T = ()> = Result<T, AcquireError>;

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[distributed_lock(key = "k", client = locks, hold = "1s")]
async fn cancelled(locks: &LockClient, dropped: Arc<AtomicBool>) -> Outcome {
    let _note = OnDrop(move || dropped.store(true, Ordering::SeqCst));
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn the_body_is_dropped_and_the_error_says_that_the_lock_was_lost() {
    let locks = LockClient::memory();
    let dropped = Arc::new(AtomicBool::new(false));
    let error = cancelled(&locks, dropped.clone()).await.unwrap_err();
    assert!(dropped.load(Ordering::SeqCst));
    assert!(error.is_lost() && !error.is_unavailable() && !error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("hold limit"), "{error}");
    assert!(!is_held(&locks, "k").await);
    assert_eq!(locks.stats().held, 0);
}

#[distributed_lock(key = "k", client = locks, hold = "20ms")]
async fn blocking(locks: &LockClient) -> Outcome {
    // The fault itself: nothing can stop a body that does not await.
    std::thread::sleep(std::time::Duration::from_millis(40));
    Ok(())
}

#[tokio::test]
async fn a_body_that_blocked_past_its_time_is_not_taken_for_done() {
    let error = blocking(&LockClient::memory()).await.unwrap_err();
    assert!(error.is_lost(), "{error}");
}

#[distributed_lock(key = "k", client = locks, hold = "1s", on_lost = "report", guard = g)]
async fn reported(locks: &LockClient) -> Outcome<LossReason> {
    let lost = g.lost().await;
    tokio::task::yield_now().await;
    assert!(!g.is_held());
    Ok(lost.reason())
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_told_runs_on() {
    assert_eq!(reported(&LockClient::memory()).await.unwrap(), LossReason::HoldLimit);
}

#[distributed_lock(
    key = "k", client = locks, hold = "1s", on_busy = |error| error.is_lost()
)]
async fn answered(locks: &LockClient) -> bool {
    std::future::pending().await
}

#[derive(Debug, PartialEq)]
struct Failed(&'static str);

impl FromLockError for Failed {
    fn from_lock_error(error: AcquireError) -> Self {
        match error {
            AcquireError::Lost(lost) if lost.reason() == LossReason::HoldLimit => Self("limit"),
            _ => Self("other"),
        }
    }
}

#[distributed_lock(key = "k:{name}", client = locks, hold = "1s", on_busy = |_| {
    let _ = name;
    Failed("busy")
})]
async fn converted(locks: &LockClient, name: String) -> Failed {
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn on_busy_answers_a_loss_unless_it_uses_an_argument() {
    let locks = LockClient::memory();
    assert!(answered(&locks).await);
    assert_eq!(converted(&locks, "a".into()).await, Failed("limit"));
}

#[distributed_lock(keys = ["a", "b"], client = locks, hold = "1s", when = *locked)]
async fn several(locks: &LockClient, locked: &bool) -> Outcome {
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_of_several_keys_ends_the_body() {
    let locks = LockClient::memory();
    assert!(several(&locks, &true).await.unwrap_err().is_lost());
    assert!(!is_held(&locks, "a").await && !is_held(&locks, "b").await);
    let unlocked = several(&locks, &false);
    let hour = std::time::Duration::from_secs(3600);
    tokio::time::timeout(hour, unlocked).await.expect_err("nothing to lose, nothing to end it");
}

#[distributed_lock(key = "k", client = locks, hold = "100ms")]
async fn charged(locks: &LockClient, times: &AtomicUsize) -> Outcome {
    times.fetch_add(1, Ordering::SeqCst);
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_retries_what_is_retryable_does_not_run_a_body_that_was_cut_again() {
    let (locks, times) = (LockClient::memory(), AtomicUsize::new(0));
    for _ in 0..3 {
        match charged(&locks, &times).await {
            Err(error) if error.is_retryable() => {}
            _ => break,
        }
    }
    assert_eq!(times.load(Ordering::SeqCst), 1);
}

#[distributed_lock(key = "k", client = locks, hold = "20ms")]
async fn woken(locks: &LockClient, wake: Arc<Notify>, went_on: Arc<AtomicBool>) -> Outcome {
    wake.notified().await;
    went_on.store(true, Ordering::SeqCst);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_body_that_wakes_up_past_its_time_does_nothing_more() {
    let (locks, wake, went_on) = (LockClient::memory(), Arc::default(), Arc::default());
    let mut call = pin!(woken(&locks, Arc::clone(&wake), Arc::clone(&went_on)));
    while locks.stats().held == 0 {
        assert!(futures_util::poll!(call.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    assert!(futures_util::poll!(call.as_mut()).is_pending());
    wake.notify_one();
    // The fault itself: time goes on, and no task is run.
    let advance = tokio::time::advance(std::time::Duration::from_millis(40));
    assert!(futures_util::poll!(pin!(advance)).is_pending());
    assert!(call.await.unwrap_err().is_lost());
    assert!(!went_on.load(Ordering::SeqCst));
}
