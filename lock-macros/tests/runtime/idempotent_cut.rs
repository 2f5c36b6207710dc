//! A function under `#[idempotent]` whose body was cut in the middle.

use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_core::idempotency::{Idempotency, IdempotencyError, Keep, MemoryRecords, Replayable};
use lock_core::{AcquireError, LockClient, distributed_lock, idempotent};

fn engine() -> Idempotency {
    Idempotency::new("tests", LockClient::memory(), MemoryRecords::new())
}

#[idempotent(key = "k", scope = global, client = once, on_unknown = "refuse")]
async fn panics(once: Idempotency) -> Result<u8, IdempotencyError> {
    panic!("the body's own")
}

#[tokio::test(start_paused = true)]
async fn under_refuse_a_body_that_panics_never_runs_again() {
    let once = engine();
    assert!(tokio::spawn(panics(once.clone())).await.unwrap_err().is_panic());
    let error = panics(once).await.unwrap_err();
    assert!(matches!(error, IdempotencyError::Unknown { .. }), "{error}");
}

/// What a call came to, with a word for a cut.
#[derive(Debug, PartialEq)]
enum Paid {
    Cut,
    Refused(bool),
}

impl Replayable for Paid {
    fn keep(&self) -> Keep {
        Keep::Unknown
    }

    fn replay(_: &[u8]) -> Self {
        unreachable!("nothing is kept")
    }

    fn refuse(error: IdempotencyError) -> Self {
        Self::Refused(matches!(error, IdempotencyError::Unknown { .. }))
    }
}

#[idempotent(key = "k", scope = global, client = once, on_unknown = "refuse")]
async fn cut(once: &Idempotency, runs: &AtomicU32) -> Paid {
    runs.fetch_add(1, Ordering::SeqCst);
    Paid::Cut
}

#[tokio::test(start_paused = true)]
async fn under_refuse_a_value_that_says_that_the_body_was_cut_never_runs_again() {
    let (once, runs) = (engine(), AtomicU32::new(0));
    assert_eq!(cut(&once, &runs).await, Paid::Cut);
    assert_eq!(cut(&once, &runs).await, Paid::Refused(true));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[distributed_lock(key = "till", client = locks, hold = "100ms")]
async fn charge(locks: &LockClient) -> Result<u8, AcquireError> {
    pending().await
}

/// An error of the service's own, which tells nothing of a cut.
#[derive(Debug)]
enum Sorry {
    Busy,
    Unknown,
}

impl From<IdempotencyError> for Sorry {
    fn from(error: IdempotencyError) -> Self {
        if matches!(error, IdempotencyError::Unknown { .. }) { Self::Unknown } else { Self::Busy }
    }
}

#[idempotent(key = "k", scope = global, client = once, on_unknown = "refuse")]
async fn erased(once: &Idempotency, runs: &AtomicU32) -> Result<u8, Sorry> {
    runs.fetch_add(1, Ordering::SeqCst);
    charge(once.locks()).await.map_err(|_| Sorry::Busy)
}

#[tokio::test(start_paused = true)]
async fn under_refuse_a_cut_inside_is_known_whatever_its_error_was_made_into() {
    let (once, runs) = (engine(), AtomicU32::new(0));
    assert!(matches!(erased(&once, &runs).await, Err(Sorry::Busy)));
    assert!(matches!(erased(&once, &runs).await, Err(Sorry::Unknown)));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
