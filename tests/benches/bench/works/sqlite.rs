//! Works on a SQLite file, beside what everybody writes first.

use std::future::ready;
use std::time::Duration;

use tempfile::TempDir;
use tests::clock::now_ns;

use super::processes::{JAIN_PROCESSES, Team};
use crate::arguments::Arguments;
use crate::measure::{JAIN, RATE, STARVED, Sent, WAIT_MAX, in_process};
use crate::report::{Target, Work};
use crate::rivals::Contender::{self, Ours, SqliteImmediate, SqliteUnique, SqliteUpdates};
use crate::series::{Latencies, Series};

const P50: &str = "cycle p50 µs";
const P99: &str = "cycle p99 µs";

/// Rivals take turns in blocks this long, so that a change of the machine's pace meets all.
const BLOCK: usize = 100;

const PROCESSES: usize = 4;
const TASKS: usize = 16;

/// A file for each, as SQLite serves one writer of a file at a time.
fn url(folder: &TempDir, contender: Contender) -> String {
    let name = contender.name().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    format!("sqlite://{}/{name}.db?create=true", folder.path().display())
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Nobody counts what is sent to a file.
async fn nothing_sent(window: crate::measure::Window) -> Sent {
    window.end().await;
    None
}

/// One task, a free key.
pub(crate) async fn single(arguments: &Arguments) -> Work {
    let contenders = [Ours, SqliteUpdates, SqliteUnique, SqliteImmediate];
    let folder = folder();
    let mut series = Series::default();
    for _ in 0..arguments.repeats() {
        let mut runs = Vec::new();
        for contender in contenders {
            let rival = contender.connect(&url(&folder, contender)).await;
            runs.push((contender, rival, Latencies::new()));
        }
        for block in 0..=arguments.count(3_000) / BLOCK {
            for (_, rival, cycles) in &mut runs {
                for _ in 0..BLOCK {
                    let start_ns = now_ns();
                    rival.cycle("bench:single", || ready(())).await;
                    // The first block warms connections and caches up.
                    if block > 0 {
                        cycles.record(now_ns() - start_ns);
                    }
                }
            }
        }
        for (contender, _, cycles) in &runs {
            series.push(contender.name(), P50, cycles.ns(0.5) / 1e3);
            series.push(contender.name(), P99, cycles.ns(0.99) / 1e3);
        }
    }
    let ratio = |other: Contender| series.ratio(Ours.name(), other.name(), P50).median;
    let targets = vec![Target::at_most("p50 ÷ two updates of a row", ratio(SqliteUpdates), 1.3)];
    Work {
        name: "sqlite-single",
        title: "SQLite, one task, free key, acquire + release".to_owned(),
        compared: vec![(Ours.name(), P50)],
        series,
        targets,
        notes: Vec::new(),
    }
}

/// One hot key, one process.
pub(crate) async fn hot_64(arguments: &Arguments) -> Work {
    let folder = folder();
    let mut series = Series::default();
    for repeat in 0..arguments.repeats() {
        for contender in [Ours, SqliteUnique, SqliteImmediate] {
            let keys = vec![format!("bench:hot:{repeat}"); 64];
            let span = arguments.span(Duration::from_millis(1_200));
            let url = url(&folder, contender);
            in_process(&mut series, &url, contender, keys, span, nothing_sent).await;
        }
    }
    let ours = Ours.name();
    let rate = |other: Contender| series.ratio(ours, other.name(), RATE).median;
    let targets = vec![
        Target::at_least("rate ÷ unique row", rate(SqliteUnique), 50.0),
        Target::at_least("rate ÷ BEGIN IMMEDIATE", rate(SqliteImmediate), 50.0),
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.99),
    ];
    Work {
        name: "sqlite-hot-64",
        title: "SQLite, one hot key, one process, 64 tasks".to_owned(),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: Vec::new(),
    }
}

/// One hot key, four processes of 16 tasks.
pub(crate) async fn processes(arguments: &Arguments) -> Work {
    let folder = folder();
    let mut series = Series::default();
    for repeat in 0..arguments.repeats() {
        for contender in [Ours, SqliteUnique, SqliteImmediate] {
            let keys = vec![format!("bench:processes:{repeat}"); TASKS];
            let team = Team { contender, processes: PROCESSES, keys };
            let span = arguments.span(Duration::from_secs(2));
            team.run_and_note(&mut series, &url(&folder, contender), span, nothing_sent).await;
        }
    }
    let ours = Ours.name();
    let targets = vec![
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.95),
        Target::at_least(
            "Jain over processes, worst repeat",
            series.spread(ours, JAIN_PROCESSES).min,
            0.95,
        ),
        Target::at_most("tasks starved, worst repeat", series.spread(ours, STARVED).max, 0.0),
    ];
    let longest = series.spread(ours, WAIT_MAX).max;
    Work {
        name: "sqlite-processes",
        title: "SQLite, one hot key, 4 processes × 16 tasks, default fairness".to_owned(),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: vec![format!("The longest wait of ours over all repeats: {longest:.1} ms.")],
    }
}
