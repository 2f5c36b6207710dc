//! More requests than one key can serve.

mod burst;
mod offer;
mod service;

use std::time::Duration;

use crate::arguments::Arguments;
use crate::report::{Target, Work};
use crate::series::Series;
use offer::{Load, Outcome};
use service::Rival;

/// The time of a handler under the lock.
const HOLD: Duration = Duration::from_millis(5);

/// `wait` 2 s, two tries: what a caller is ready to wait for an answer.
const BUDGET: Duration = Duration::from_secs(4);

const LOADS: [f64; 5] = [0.5, 1.0, 2.0, 5.0, 10.0];

const GOODPUT: &str = "goodput ÷ capacity";
/// Divided by what was asked for if that was less than the capacity.
const OF_ASKED: &str = "goodput ÷ the lesser of both";
const OFFERED: &str = "offered ÷ capacity";
const REFUSED: &str = "refused %";
const REFUSED_P50: &str = "refused p50 ms";
const IN_VAIN: &str = "waited and failed %";
const LATE: &str = "late %";
const DONE_P50: &str = "done p50 ms";
const DONE_P99: &str = "done p99 ms";
const CAPACITY: &str = "capacity/s";
const ALONE: &str = "alone/s";

pub(crate) async fn run(arguments: &Arguments) -> Work {
    let mut series = Series::default();
    let span = arguments.span(Duration::from_secs(10));
    let mut in_vain = 0;
    for repeat in 0..arguments.repeats() {
        for load in LOADS {
            for rival in Rival::ALL {
                let alone = offer::capacity(HOLD, span / 10).await;
                let seed = repeat as u64;
                let offered = Load { per_s: load * alone, span, budget: BUDGET, seed };
                let service = rival.service(HOLD, BUDGET);
                // Beside it, so that the machine's mood is the same.
                let (outcome, capacity) =
                    tokio::join!(offer::run(&service, &offered), offer::capacity(HOLD, span));
                if rival == Rival::Admission {
                    in_vain += outcome.in_vain;
                }
                let row = row(rival, load);
                note(&mut series, &row, &outcome, capacity);
                series.push(&row, ALONE, alone);
            }
        }
    }
    Work {
        name: "overload",
        title: format!(
            "one key, a handler of 5 ms, wait 2 s × 2 tries, requests at random for {} s",
            span.as_secs_f64()
        ),
        compared: Vec::new(),
        targets: targets(&series, in_vain),
        series,
        notes: vec![
            "Goodput: done within 4 s of when the request was due, while the load lasted. \
             Capacity: the rate of the same handler one after the other without anything around \
             it, measured beside the load; alone: for a second just before it, which the load is \
             a multiple of. At 1 × chance leaves some of the capacity without a request, so there \
             what was asked for counts if it was less."
                .to_owned(),
        ],
    }
}

pub(crate) async fn burst(arguments: &Arguments) -> Work {
    burst::run(arguments).await
}

fn row(rival: Rival, load: f64) -> String {
    format!("{load} ×, {}", rival.name())
}

fn note(series: &mut Series, row: &str, outcome: &Outcome, capacity: f64) {
    let percent = |count: u64| 100.0 * count as f64 / outcome.all().max(1) as f64;
    let part = |count: u64| count as f64 / outcome.span.as_secs_f64() / capacity;
    let (goodput, offered) = (part(outcome.served), part(outcome.all()));
    series.push(row, OFFERED, offered);
    series.push(row, GOODPUT, goodput);
    series.push(row, OF_ASKED, goodput / offered.min(1.0));
    series.push(row, REFUSED, percent(outcome.refused));
    if outcome.refused > 0 {
        series.push(row, REFUSED_P50, outcome.refused_after.ns(0.5) / 1e6);
    }
    series.push(row, IN_VAIN, percent(outcome.in_vain));
    series.push(row, LATE, percent(outcome.late));
    series.push(row, DONE_P50, outcome.done_after.ns(0.5) / 1e6);
    series.push(row, DONE_P99, outcome.done_after.ns(0.99) / 1e6);
    series.push(row, CAPACITY, capacity);
}

fn targets(series: &Series, in_vain: u64) -> Vec<Target> {
    let ours = |load| row(Rival::Admission, load);
    let mut targets: Vec<_> = LOADS
        .into_iter()
        .filter(|load| *load >= 1.0)
        .map(|load| {
            let goodput = series.spread(&ours(load), OF_ASKED).median;
            Target::at_least(format!("goodput ÷ capacity at {load} ×"), goodput, 0.95)
        })
        .collect();
    let refused = LOADS.into_iter().map(|load| series.spread(&ours(load), REFUSED_P50).median);
    let slowest = refused.filter(|p50| p50.is_finite()).fold(0.0, f64::max);
    targets.push(Target::at_most("refused p50 ms, slowest load", slowest, 5.0));
    targets.push(Target::at_most("requests that waited and failed", in_vain as f64, 0.0));
    targets
}
