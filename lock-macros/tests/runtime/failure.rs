//! What the function returns when the lock is not had.

use std::time::Duration;

use lock_core::FromLockError;
use lock_core::{AcquireError, LockClient, distributed_lock};

use crate::holder;

type Outcome<T = ()> = Result<T, AcquireError>;

#[distributed_lock(key = "k", client = locks)]
async fn defaults(locks: &LockClient) -> Outcome {
    unreachable!("somebody else holds the lock")
}

#[tokio::test(start_paused = true)]
async fn by_default_two_tries_of_two_seconds_are_made() {
    let locks = LockClient::memory();
    let _other = holder(&locks, "k").await;
    match defaults(&locks).await.unwrap_err() {
        AcquireError::Timeout(error) => {
            assert_eq!(error.tries(), 2);
            assert_eq!(error.wait(), Duration::from_secs(2));
        }
        other => panic!("{other}"),
    }
}

#[distributed_lock(key = "k", client = locks, wait = "300ms", retries = retries)]
async fn given(locks: &LockClient, retries: u32) -> Outcome {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_given_bounds_are_the_ones_that_count() {
    let locks = LockClient::memory();
    let _other = holder(&locks, "k").await;
    match given(&locks, 3).await.unwrap_err() {
        AcquireError::Timeout(error) => {
            assert_eq!(error.tries(), 4);
            assert_eq!(error.wait(), Duration::from_millis(300));
        }
        other => panic!("{other}"),
    }
    assert!(given(&locks, 1001).await.unwrap_err().is_rejected());
}

#[distributed_lock(key = "k", client = locks, wait = Duration::ZERO, on_busy = |error| {
    format!("{sku} is busy: {}", error.is_timeout())
}, on_lost = "report")]
async fn closure(locks: &LockClient, sku: String) -> String {
    sku
}

#[distributed_lock(key = "k", client = locks, wait = "1ms", on_busy = said)]
async fn path(locks: &LockClient) -> &'static str {
    "done"
}

fn said(error: AcquireError) -> &'static str {
    if error.is_timeout() { "busy" } else { "broken" }
}

#[distributed_lock(key = "k", client = locks, wait = "1ms", on_busy = Some(0))]
async fn value(locks: &LockClient) -> Option<u8> {
    Some(1)
}

#[tokio::test(start_paused = true)]
async fn on_busy_makes_the_value_as_closure_path_or_expression() {
    let locks = LockClient::memory();
    let other = holder(&locks, "k").await;
    assert_eq!(closure(&locks, "a".into()).await, "a is busy: true");
    assert_eq!(path(&locks).await, "busy");
    assert_eq!(value(&locks).await, Some(0));
    other.release().await.unwrap();
    assert_eq!(closure(&locks, "a".into()).await, "a");
    assert_eq!(path(&locks).await, "done");
    assert_eq!(value(&locks).await, Some(1));
}

#[derive(Debug, PartialEq)]
enum Reply {
    Done,
    Busy,
}

impl FromLockError for Reply {
    fn from_lock_error(error: AcquireError) -> Self {
        assert!(error.is_timeout(), "{error}");
        Self::Busy
    }
}

#[distributed_lock(key = "k", client = locks, wait = "1ms")]
async fn own_type(locks: &LockClient) -> Reply {
    Reply::Done
}

#[tokio::test(start_paused = true)]
async fn a_type_of_the_users_own_can_say_that_the_lock_was_not_had() {
    let locks = LockClient::memory();
    assert_eq!(own_type(&locks).await, Reply::Done);
    let _other = holder(&locks, "k").await;
    assert_eq!(own_type(&locks).await, Reply::Busy);
}

#[distributed_lock(key = ("k:{}", 10 / *divisor), client = locks, when = *divisor > 0, guard = g)]
async fn when(locks: &LockClient, divisor: &u8) -> Outcome<bool> {
    assert_eq!(locks.stats().held, usize::from(g.is_some()));
    Ok(g.is_some_and(|g| g.is_held()))
}

#[tokio::test(start_paused = true)]
async fn without_its_condition_the_body_runs_without_a_lock_and_no_key_is_evaluated() {
    let locks = LockClient::memory();
    assert!(!when(&locks, &0).await.unwrap());
    assert_eq!(locks.stats().acquired, 0);
    assert!(when(&locks, &5).await.unwrap());
    assert_eq!(locks.stats().acquired, 1);
}
