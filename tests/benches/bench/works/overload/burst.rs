//! A thousand requests at once, of which the budget can hold some.

use std::iter::repeat_n;
use std::time::Duration;

use tokio::time::Instant;

use super::offer::{self, Outcome};
use super::service::Rival;
use super::{BUDGET, DONE_P99, IN_VAIN, LATE, REFUSED, REFUSED_P50};
use crate::arguments::Arguments;
use crate::report::{Target, Work};
use crate::series::Series;

const REQUESTS: usize = 1_000;
const HOLD: Duration = Duration::from_millis(10);

const SERVED: &str = "served";
const ALLOWED: &str = "the capacity allows";
const PART: &str = "served ÷ allowed";

pub(crate) async fn run(arguments: &Arguments) -> Work {
    let mut series = Series::default();
    for _ in 0..arguments.repeats() {
        for rival in Rival::ALL {
            let service = rival.service(HOLD, BUDGET);
            let all = repeat_n(Duration::ZERO, REQUESTS);
            // All of the budget counts, and there is no load after it.
            let burst = offer::send(&service, Instant::now(), all, Outcome::new(BUDGET), BUDGET);
            let (outcome, capacity) = tokio::join!(burst, offer::capacity(HOLD, BUDGET));
            note(&mut series, rival.name(), &outcome, capacity);
        }
    }
    let ours = Rival::Admission.name();
    let targets = vec![
        Target::at_least("served ÷ allowed", series.spread(ours, PART).median, 0.97),
        Target::at_most("waited and failed %, worst repeat", series.spread(ours, IN_VAIN).max, 0.0),
    ];
    Work {
        name: "burst",
        title: "1,000 requests at once for one key, a handler of 10 ms, budget 4 s".to_owned(),
        compared: Vec::new(),
        series,
        targets,
        notes: vec![
            "Allowed: the rate of the same handler one after the other, measured beside it, \
             times 4 s."
                .to_owned(),
        ],
    }
}

fn note(series: &mut Series, row: &str, outcome: &Outcome, capacity: f64) {
    let allowed = (capacity * BUDGET.as_secs_f64()).min(REQUESTS as f64);
    let percent = |count: u64| 100.0 * count as f64 / REQUESTS as f64;
    series.push(row, SERVED, outcome.served as f64);
    series.push(row, ALLOWED, allowed);
    series.push(row, PART, outcome.served as f64 / allowed);
    series.push(row, REFUSED, percent(outcome.refused));
    if outcome.refused > 0 {
        series.push(row, REFUSED_P50, outcome.refused_after.ns(0.5) / 1e6);
    }
    series.push(row, IN_VAIN, percent(outcome.in_vain));
    series.push(row, LATE, percent(outcome.late));
    series.push(row, DONE_P99, outcome.done_after.ns(0.99) / 1e6);
}
