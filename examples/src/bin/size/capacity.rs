//! The capacity of the key, by a few callers that are never without a request.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::target::{End, Target};
use crate::{Trouble, clock, point};

/// So many that the key is never idle, and so few that none waits for long.
const CALLERS: usize = 4;

/// A caller that was not served leaves the key alone for so long.
const PAUSE: Duration = Duration::from_millis(10);

/// The capacity that was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Capacity {
    pub(crate) per_s: f64,
    /// From one request done to the next: how long one keeps the key, the hand-off included.
    pub(crate) hold_p50: Duration,
    pub(crate) hold_p99: Duration,
}

#[derive(Debug)]
struct Done {
    last: Option<Instant>,
    gaps_us: Histogram<u64>,
    trouble: Option<Trouble>,
}

/// Measures for `span`, after a fifth of it to warm up.
pub(crate) async fn measure(target: &Target, span: Duration) -> Result<Capacity, Trouble> {
    let begun = clock::now() + span / 5;
    let end = begun + span;
    let done = Done { last: None, gaps_us: point::times_us(), trouble: None };
    let done = Arc::new(Mutex::new(done));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        callers.spawn(keep_calling(target.clone(), done.clone(), begun));
    }
    sleep_until(end).await;
    // A caller that holds the key longer than that gives it back as it goes.
    callers.shutdown().await;
    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
    // One request has no gap before it.
    let (Some(last), false) = (done.last, done.gaps_us.is_empty()) else {
        return Err(done.trouble.take().unwrap_or_else(|| {
            format!("less than two requests were done within {span:?}: give more --seconds").into()
        }));
    };
    let at = |quantile| Duration::from_micros(done.gaps_us.value_at_quantile(quantile));
    let took = last.saturating_duration_since(begun).as_secs_f64();
    Ok(Capacity { per_s: done.gaps_us.len() as f64 / took, hold_p50: at(0.5), hold_p99: at(0.99) })
}

async fn keep_calling(target: Target, done: Arc<Mutex<Done>>, begun: Instant) {
    loop {
        let ended = target.call().await;
        let now = clock::now();
        match ended {
            Ok(End::Done) if now >= begun => {
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                // A caller that was served a moment earlier may come a moment later to this line.
                let before = done.last.unwrap_or(begun);
                let gap = now.saturating_duration_since(before).as_micros();
                done.gaps_us.saturating_record(u64::try_from(gap).unwrap_or(u64::MAX));
                done.last = Some(before.max(now));
            }
            Ok(End::Done) => {}
            Ok(_) => tokio::time::sleep(PAUSE).await,
            Err(trouble) => {
                done.lock().unwrap_or_else(PoisonError::into_inner).trouble = Some(trouble);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
