//! Removing rows whose life is over. They count for nothing, so this only keeps the table small.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::dialect::RecordDialect;
use super::store::Kept;
use crate::ground::{clock, lock};

/// A sweep is due after so many claims.
const CLAIMS: u32 = 64;

/// And with the first claim after this time.
const OFTEN: Duration = Duration::from_secs(30);

/// How many rows one statement removes at most: it holds up all who write meanwhile.
pub(super) const ROWS_MAX: u32 = 128;

/// How many statements a sweep has at most. It removes far more rows than the claims before it have
/// made, so that it catches up.
const STATEMENTS_MAX: u32 = 16;

/// When to sweep.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    claims: AtomicU32,
    last: Mutex<Option<Instant>>,
    is_under_way: AtomicBool,
}

impl Sweeps {
    /// Counts a claim. The first one finds what an earlier process has left.
    pub(super) fn is_due(&self) -> bool {
        let claims = self.claims.fetch_add(1, Ordering::Relaxed) + 1;
        let now = clock::now();
        let mut last = lock(&self.last);
        let is_long_ago = last.is_none_or(|last| now.saturating_duration_since(last) >= OFTEN);
        if claims < CLAIMS && !is_long_ago {
            return false;
        }
        self.claims.store(0, Ordering::Relaxed);
        *last = Some(now);
        true
    }
}

/// Sweeps in a task of its own, unless one is under way: no claim waits for it.
pub(super) fn begin<D: RecordDialect>(kept: &Arc<Kept<D>>) {
    let Some(runtime) = clock::runtime() else { return };
    if kept.sweeps().is_under_way.swap(true, Ordering::AcqRel) {
        return;
    }
    let kept = UnderWay(kept.clone());
    drop(runtime.spawn(async move {
        for _ in 0..STATEMENTS_MAX {
            match kept.0.sweep(ROWS_MAX).await {
                Ok(rows) if rows >= u64::from(ROWS_MAX) => tokio::task::yield_now().await,
                Ok(_) => return,
                Err(fault) => {
                    // The next one finds the same rows.
                    tracing::debug!(%fault, "idempotency records whose life is over were not removed");
                    return;
                }
            }
        }
    }));
}

/// Says so when it is over, be it that its runtime ends.
struct UnderWay<D: RecordDialect>(Arc<Kept<D>>);

impl<D: RecordDialect> Drop for UnderWay<D> {
    fn drop(&mut self) {
        self.0.sweeps().is_under_way.store(false, Ordering::Release);
    }
}
