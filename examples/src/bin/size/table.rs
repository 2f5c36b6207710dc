//! The words and tables that are printed.

use std::time::Duration;

use comfy_table::presets::ASCII_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde_json::{Value, json};

use crate::advice::{Advice, text};
use crate::arguments::Arguments;
use crate::capacity::Capacity;
use crate::load;
use crate::point::Point;

/// The curve, a row for each load.
pub(crate) fn curve(measured: &Capacity, points: &[(f64, Point)]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_FULL_CONDENSED).set_header([
        "load",
        "offered/s",
        "goodput/s",
        "of capacity",
        "p50",
        "p99",
        "refused",
        "refused p50",
        "in vain",
        "late",
        "failed",
    ]);
    let none = |count: u64, cell: String| if count == 0 { "-".to_owned() } else { cell };
    for (load, point) in points {
        let percent = |count| none(count, format!("{:.1} %", point.percent(count)));
        let done = |time| none(u64::from(point.goodput_per_s > 0.0), text(time));
        table.add_row([
            format!("{load} x"),
            format!("{:.0}", point.offered_per_s),
            format!("{:.0}", point.goodput_per_s),
            format!("{:.0} %", 100.0 * point.goodput_per_s / measured.per_s),
            done(point.done_p50),
            done(point.done_p99),
            percent(point.refused),
            none(point.refused, text(point.refused_p50)),
            percent(point.in_vain),
            percent(point.late),
            percent(point.failed + point.unsent),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The verdict: what was measured, what to choose and why, and what to know of the figures.
pub(crate) fn verdict(
    arguments: &Arguments,
    measured: &Capacity,
    advice: &Advice,
    tried: (Duration, u32),
    points: &[(f64, Point)],
) -> String {
    let mut said = Vec::new();
    let mut say = |line: String| said.push(line);
    say(format!(
        "One key serves {:.0} requests per second: each keeps it for {} (p50), {} (p99).",
        measured.per_s,
        text(measured.hold_p50),
        text(measured.hold_p99),
    ));
    match advice {
        Advice::Choose { wait, retries, why, .. } => {
            say(format!("Recommended: wait {}, retries {retries}. Because", text(*wait)));
            why.iter().for_each(|line| say(format!("- {line}")));
        }
        Advice::Hopeless { why } => say(format!("No wait can be recommended: {why}.")),
    }
    let (wait, retries) = tried;
    say(match &arguments.endpoint {
        Some(uri) => format!("Measured at {uri}, with the wait and the retries that it has."),
        None if arguments.no_admission => {
            format!("Measured with wait {}, retries {retries}, without admission.", text(wait))
        }
        None => format!("Measured with wait {}, retries {retries}.", text(wait)),
    });
    if points.len() < arguments.loads.len() {
        say(format!(
            "Loads above {:.0} requests per second were left out: give a longer --hold.",
            load::PER_S_MAX
        ));
    }
    let unsent: u64 = points.iter().map(|(_, point)| point.unsent).sum();
    if unsent > 0 {
        say(format!("{unsent} requests were not sent, as so many were under way: --in-flight."));
    }
    if let Some(trouble) = points.iter().rev().find_map(|(_, point)| point.trouble.as_ref()) {
        say(format!("The last fault: {trouble}"));
    }
    said.join("\n")
}

/// The same for programs; times in milliseconds.
pub(crate) fn json(
    measured: &Capacity,
    advice: &Advice,
    tried: (Duration, u32),
    points: &[(f64, Point)],
) -> Value {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let advice = match advice {
        Advice::Choose { wait, retries, waiters, why } => {
            json!({ "wait_ms": ms(*wait), "retries": retries, "waiters": waiters, "why": why })
        }
        Advice::Hopeless { why } => json!({ "why": [why] }),
    };
    let points: Vec<_> = points
        .iter()
        .map(|(load, point)| {
            json!({
                "load": load,
                "offered_per_s": point.offered_per_s,
                "goodput_per_s": point.goodput_per_s,
                "done_p50_ms": ms(point.done_p50),
                "done_p99_ms": ms(point.done_p99),
                "refused_p50_ms": ms(point.refused_p50),
                "sent": point.sent,
                "refused": point.refused,
                "in_vain": point.in_vain,
                "late": point.late,
                "failed": point.failed,
                "unsent": point.unsent,
            })
        })
        .collect();
    json!({
        "capacity_per_s": measured.per_s,
        "hold_p50_ms": ms(measured.hold_p50),
        "hold_p99_ms": ms(measured.hold_p99),
        "recommended": advice,
        "tried": { "wait_ms": ms(tried.0), "retries": tried.1 },
        "points": points,
    })
}
