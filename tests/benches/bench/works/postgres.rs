//! Works on a PostgreSQL server, beside what everybody writes first.

use std::future::ready;
use std::time::Duration;

use tests::clock::now_ns;
use tests::postgres::PostgresServer;

use super::held;
use super::processes::{JAIN_PROCESSES, Team};
use crate::arguments::Arguments;
use crate::measure::{JAIN, RATE, STARVED, Sent, WAIT_MAX, in_process};
use crate::report::{Target, Work};
use crate::rivals::Contender::{
    self, Ours, OursStrict, PostgresAdvisory, PostgresForUpdate, PostgresUnique, PostgresUpdates,
};
use crate::rivals::postgres::{Statements, Way};
use crate::series::{Latencies, Series};

const P50: &str = "cycle p50 µs";
const P99: &str = "cycle p99 µs";

/// Rivals take turns in blocks this long, so that a change of the machine's pace meets all.
const BLOCK: usize = 100;

const PROCESSES: usize = 4;
const TASKS: usize = 16;

/// What a user would take in place of ours.
const RIVALS: [Contender; 3] = [PostgresUnique, PostgresForUpdate, PostgresAdvisory];

/// Nobody counts what is sent.
async fn nothing_sent(window: crate::measure::Window) -> Sent {
    window.end().await;
    None
}

/// A server whose keys have the rows that one who locks a row has to find.
async fn server(keys: &[String]) -> PostgresServer {
    let server = PostgresServer::start();
    let statements = Statements::connect(&server.url(), Way::TwoUpdates).await;
    for key in keys {
        statements.update(key).await;
    }
    server
}

/// The key of a rival: one who inserts a row finds none there.
fn key_of(contender: Contender, work: &str) -> String {
    match contender {
        PostgresUnique => format!("bench:{work}:unique"),
        _ => format!("bench:{work}"),
    }
}

/// One task, a free key.
pub(crate) async fn single(arguments: &Arguments) -> Work {
    let contenders = [&[Ours, PostgresUpdates][..], &RIVALS].concat();
    let server = server(&[key_of(Ours, "single")]).await;
    let mut series = Series::default();
    for _ in 0..arguments.repeats() {
        let mut runs = Vec::new();
        for contender in &contenders {
            runs.push((*contender, contender.connect(&server.url()).await, Latencies::new()));
        }
        for block in 0..=arguments.count(3_000) / BLOCK {
            for (contender, rival, cycles) in &mut runs {
                let key = key_of(*contender, "single");
                for _ in 0..BLOCK {
                    let start_ns = now_ns();
                    rival.cycle(&key, || ready(())).await;
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
    let targets = vec![Target::at_most("p50 ÷ two upserts of a row", ratio(PostgresUpdates), 1.3)];
    Work {
        name: "postgres-single",
        title: "PostgreSQL, one task, free key, acquire + release".to_owned(),
        compared: vec![(Ours.name(), P50)],
        series,
        targets,
        notes: Vec::new(),
    }
}

/// One hot key, one process.
pub(crate) async fn hot_64(arguments: &Arguments) -> Work {
    let server = server(&[key_of(Ours, "hot")]).await;
    let mut series = Series::default();
    for _ in 0..arguments.repeats() {
        for contender in [&[Ours][..], &RIVALS].concat() {
            let keys = vec![key_of(contender, "hot"); 64];
            let span = arguments.span(Duration::from_millis(1_200));
            in_process(&mut series, &server.url(), contender, keys, span, nothing_sent).await;
        }
    }
    let ours = Ours.name();
    let rate = |other: Contender| series.ratio(ours, other.name(), RATE).median;
    let targets = vec![
        Target::at_least("rate ÷ unique row", rate(PostgresUnique), 50.0),
        Target::at_least("rate ÷ FOR UPDATE", rate(PostgresForUpdate), 50.0),
        Target::at_least("rate ÷ pg_advisory_lock", rate(PostgresAdvisory), 50.0),
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.99),
    ];
    Work {
        name: "postgres-hot-64",
        title: "PostgreSQL, one hot key, one process, 64 tasks".to_owned(),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: Vec::new(),
    }
}

/// One hot key, four processes of 16 tasks.
pub(crate) async fn processes(arguments: &Arguments) -> Work {
    let server = server(&[key_of(Ours, "processes")]).await;
    let mut series = Series::default();
    for _ in 0..arguments.repeats() {
        for contender in [&[Ours, OursStrict][..], &RIVALS].concat() {
            let keys = vec![key_of(contender, "processes"); TASKS];
            let team = Team { contender, processes: PROCESSES, keys };
            let span = arguments.span(Duration::from_secs(2));
            team.run_and_note(&mut series, &server.url(), span, nothing_sent).await;
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
        name: "postgres-processes",
        title: "PostgreSQL, one hot key, 4 processes × 16 tasks".to_owned(),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: vec![format!("The longest wait of ours over all repeats: {longest:.1} ms.")],
    }
}

/// Ten thousand keys held at once, and what it costs to keep them.
pub(crate) async fn held(arguments: &Arguments) -> Work {
    let mut series = Series::default();
    let keys = arguments.count(10_000);
    for _ in 0..arguments.repeats() {
        let server = PostgresServer::start();
        held::repeat(&mut series, &server.url(), None, keys, arguments).await;
    }
    let ours = Ours.name();
    let targets = vec![
        Target::at_most("renewal CPU %, worst repeat", series.spread(ours, held::CPU).max, 5.0),
        Target::at_most("keys lost, worst repeat", series.spread(ours, held::LOST).max, 0.0),
    ];
    Work {
        name: "postgres-held",
        title: format!("PostgreSQL, {keys} distinct keys held at once"),
        compared: Vec::new(),
        series,
        targets,
        notes: Vec::new(),
    }
}
