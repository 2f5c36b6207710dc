//! Removing rows whose life is over. They count for nothing, so this only keeps the table small.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::backend::Fault;
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

/// One that was begun so long ago keeps no other from being: its runtime may be driven by nobody.
const UNDER_WAY_MAX: Duration = Duration::from_secs(60);

/// When to sweep.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    claims: AtomicU32,
    last: Mutex<Option<Instant>>,
    /// The time when the one under way was begun.
    under_way: Mutex<Option<Instant>>,
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

/// Sweeps in a task of its own, unless one is under way: no claim waits for it. `sweep` removes so many
/// rows at most, and says how many it has.
pub(super) fn begin<F>(sweeps: &Arc<Sweeps>, sweep: impl Fn(u32) -> F + Send + 'static)
where
    F: Future<Output = Result<u64, Fault>> + Send + 'static,
{
    let Some(runtime) = clock::runtime() else { return };
    let began = clock::now();
    let is_recent = |at: Instant| began.saturating_duration_since(at) < UNDER_WAY_MAX;
    let mut under_way = lock(&sweeps.under_way);
    if under_way.is_some_and(is_recent) {
        return;
    }
    *under_way = Some(began);
    drop(under_way);
    let under_way = UnderWay { sweeps: sweeps.clone(), began };
    drop(runtime.spawn(async move {
        let _under_way = under_way;
        for _ in 0..STATEMENTS_MAX {
            match sweep(ROWS_MAX).await {
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
struct UnderWay {
    sweeps: Arc<Sweeps>,
    began: Instant,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut under_way = lock(&self.sweeps.under_way);
        if *under_way == Some(self.began) {
            *under_way = None;
        }
    }
}
