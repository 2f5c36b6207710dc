//! One load: requests sent when they are due, whatever became of those before them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep_until;

use crate::clock;
use crate::point::{Point, Tally};
use crate::schedule::Schedule;
use crate::target::Target;

/// More than this a program of this kind cannot send in time.
pub(crate) const PER_S_MAX: f64 = 50_000.0;

/// The plan of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) per_s: f64,
    pub(crate) span: Duration,
    /// How long an answer may take.
    pub(crate) budget: Duration,
    pub(crate) in_flight_max: usize,
}

/// Sends all that is due within the span, and waits for the answers.
pub(crate) async fn run(target: &Target, plan: &Plan) -> Point {
    let tally = Arc::new(Mutex::new(Tally::new(plan.span, plan.budget)));
    let in_flight = Arc::new(Semaphore::new(plan.in_flight_max));
    let begun = clock::now();
    for due in Schedule::new(plan.per_s, plan.span) {
        if begun + due > clock::now() {
            sleep_until(begun + due).await;
        }
        let Ok(place) = in_flight.clone().try_acquire_owned() else {
            tally.lock().unwrap_or_else(PoisonError::into_inner).unsent();
            continue;
        };
        let (target, tally) = (target.clone(), tally.clone());
        tokio::spawn(async move {
            let end = target.call().await.map_err(|error| error.to_string());
            // From when it was due, not from when this program got round to it.
            let at = clock::now().saturating_duration_since(begun);
            tally.lock().unwrap_or_else(PoisonError::into_inner).ended(end, due, at);
            drop(place);
        });
    }
    // Every call is bounded in time.
    let all = u32::try_from(plan.in_flight_max).unwrap_or(u32::MAX);
    drop(in_flight.acquire_many(all).await);
    tally.lock().unwrap_or_else(PoisonError::into_inner).point()
}
