//! Waiting for what must come true, instead of sleeping and hoping.

use std::future::Future;
use std::time::Duration;

use lock_core::{LockClient, LockGuard};
use tokio::time::{Instant, sleep, timeout};

/// How long the helpers of this crate wait before they give a test up: 30 s.
///
/// It bounds a broken test. No test may take it for a measure of anything.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks `holds` until it answers true: each 2 ms at first, and each 20 ms where that lasts, as a
/// question to a server takes of the time of all tests.
///
/// # Panics
///
/// After [`PATIENCE`], with `what` in the message.
///
/// # Cancel safety
///
/// Cancel safe; it keeps no state.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        let waited = began.elapsed();
        assert!(waited < PATIENCE, "after {PATIENCE:?} it still did not hold: {what}");
        sleep((waited / 10).clamp(Duration::from_millis(2), Duration::from_millis(20))).await;
    }
}

/// Awaits `future`, at most for [`PATIENCE`].
///
/// # Panics
///
/// After [`PATIENCE`], with `what` in the message.
///
/// # Cancel safety
///
/// As that of `future`.
pub async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("after {PATIENCE:?} still waiting for: {what}"),
    }
}

/// Tries for `key` until the store says whether it is free, at most for [`PATIENCE`]: on a busy
/// machine a majority of servers may take longer to answer than a try waits.
///
/// # Panics
///
/// After [`PATIENCE`], and for an error that does not pass.
///
/// # Cancel safety
///
/// As that of a try.
pub async fn answered(locks: &LockClient, key: &str) -> Option<LockGuard> {
    let tries = async {
        loop {
            match locks.lock(key).try_acquire().await {
                Err(error) if error.is_unavailable() && error.is_retryable() => {}
                answer => return answer.unwrap(),
            }
        }
    };
    within("an answer to a try", tries).await
}
