//! Requests that come when they are due, whatever became of those before them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::service::{End, Service};
use crate::series::Latencies;

/// The requests to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) per_s: f64,
    pub(crate) span: Duration,
    pub(crate) budget: Duration,
    /// The same for all rivals of a repeat: the same gaps, in the same order.
    pub(crate) seed: u64,
}

/// The outcome of a load; all times count from when a request was due.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) span: Duration,
    /// Done within the budget and within the span.
    pub(crate) served: u64,
    /// Done within the budget, when the load was over.
    pub(crate) after: u64,
    pub(crate) late: u64,
    pub(crate) refused: u64,
    pub(crate) in_vain: u64,
    pub(crate) done_after: Latencies,
    pub(crate) refused_after: Latencies,
}

impl Outcome {
    pub(crate) fn new(span: Duration) -> Self {
        Outcome {
            span,
            served: 0,
            after: 0,
            late: 0,
            refused: 0,
            in_vain: 0,
            done_after: Latencies::new(),
            refused_after: Latencies::new(),
        }
    }

    pub(crate) fn all(&self) -> u64 {
        self.served + self.after + self.late + self.refused + self.in_vain
    }

    fn add(&mut self, end: End, due: Duration, at: Duration, budget: Duration) {
        let took = at.saturating_sub(due);
        let took_ns = took.as_nanos() as u64;
        match end {
            End::Done => {
                self.done_after.record(took_ns);
                match (took <= budget, at <= self.span) {
                    (false, _) => self.late += 1,
                    (true, true) => self.served += 1,
                    (true, false) => self.after += 1,
                }
            }
            End::Refused => {
                self.refused += 1;
                self.refused_after.record(took_ns);
            }
            End::InVain => self.in_vain += 1,
        }
    }
}

/// How often the handler runs in a second, one after the other and without anything around it.
pub(crate) async fn capacity(hold: Duration, span: Duration) -> f64 {
    let begun = Instant::now();
    let mut done = 0_u32;
    while begun.elapsed() < span {
        // In a task, as a request is.
        tokio::spawn(sleep(hold)).await.expect("it sleeps");
        done += 1;
    }
    f64::from(done) / begun.elapsed().as_secs_f64()
}

/// Sends all that is due, and waits for the answers.
pub(crate) async fn run(service: &Service, load: &Load) -> Outcome {
    let Load { per_s, span, budget, seed } = *load;
    let mut chance = fastrand::Rng::with_seed(seed);
    let begun = Instant::now();
    let mut due = Duration::ZERO;
    let arrivals = std::iter::from_fn(|| {
        due += Duration::from_secs_f64(-(1.0 - chance.f64()).ln() / per_s);
        (due < span).then_some(due)
    });
    send(service, begun, arrivals, Outcome::new(span), budget).await
}

/// Sends a request at each of `arrivals`, times since `begun` in order.
pub(crate) async fn send(
    service: &Service,
    begun: Instant,
    arrivals: impl Iterator<Item = Duration>,
    outcome: Outcome,
    budget: Duration,
) -> Outcome {
    let outcome = Arc::new(Mutex::new(outcome));
    let mut requests = JoinSet::new();
    for due in arrivals {
        if begun + due > Instant::now() {
            sleep_until(begun + due).await;
        }
        let (service, outcome) = (service.clone(), outcome.clone());
        requests.spawn(async move {
            let end = service.call().await;
            let at = begun.elapsed();
            outcome.lock().expect("no panic").add(end, due, at, budget);
        });
        while let Some(ended) = requests.try_join_next() {
            ended.expect("a request that does not panic");
        }
    }
    while let Some(ended) = requests.join_next().await {
        ended.expect("a request that does not panic");
    }
    let ended = outcome.lock().expect("no panic");
    ended.clone()
}
