//! From the release in one process to the next holder's code in another.

use std::path::PathBuf;
use std::time::Duration;

use tests::clock::now_ns;
use tests::redis::RedisServer;
use tokio::time::sleep;

use crate::arguments::Arguments;
use crate::child::{Children, Plan, read_numbers};
use crate::measure::Window;
use crate::report::{Target, Work};
use crate::rivals::Contender::{self, Ours, Poller, Rslock};
use crate::rivals::{Connected, Evalsha};
use crate::series::{Latencies, Series};

const P50: &str = "p50 µs";
const P99: &str = "p99 µs";
const COUNT: &str = "hand-offs";

const PACED: &str = "1 × EVALSHA, once per ms";
const HOT: &str = "1 × EVALSHA, back to back";

/// How long each holder keeps the key. The next one has joined the line by then.
const HOLD: Duration = Duration::from_millis(1);

pub(crate) async fn run(arguments: &Arguments) -> Work {
    let server = RedisServer::start();
    let mut series = Series::default();
    let span = arguments.span(Duration::from_millis(1_500));
    for repeat in 0..arguments.repeats() {
        for contender in [Ours, Rslock, Poller { every_ms: 1 }] {
            let key = format!("bench:handoff:{repeat}:{}", contender.name());
            between_processes(&mut series, &server, contender, &key, span).await;
        }
        // As idle between two requests as a process that waits for its turn.
        round_trips(&mut series, &server, PACED, HOLD, span).await;
        round_trips(&mut series, &server, HOT, Duration::ZERO, span / 3).await;
    }
    let ratio = |other| series.ratio(Ours.name(), other, P50).median;
    let targets = vec![
        Target::at_most("p50 ÷ one EVALSHA round trip at the same pace", ratio(PACED), 1.5),
        Target::at_most("p50 ÷ one EVALSHA round trip, back to back", ratio(HOT), 1.5),
    ];
    Work {
        name: "handoff",
        title: "remote hand-off: release begins until the next holder runs, other process"
            .to_owned(),
        compared: vec![(Ours.name(), P50)],
        series,
        targets,
        notes: Vec::new(),
    }
}

/// The child's side: takes and holds the key until the window ends. Answers pairs of times, when
/// it was granted and when it began to release.
pub(crate) async fn take_turns(rival: &Connected, key: &str, window: Window) -> Vec<u64> {
    let mut turns = Vec::new();
    window.start().await;
    while now_ns() < window.end_ns {
        let mut turn = [0, 0];
        let [granted_ns, release_ns] = &mut turn;
        let held = move || async move {
            *granted_ns = now_ns();
            sleep(HOLD).await;
            *release_ns = now_ns();
        };
        rival.cycle(key, held).await;
        turns.extend(turn);
    }
    turns
}

async fn between_processes(
    series: &mut Series,
    server: &RedisServer,
    contender: Contender,
    key: &str,
    span: Duration,
) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out: Vec<PathBuf> = (0..2).map(|n| folder.path().join(n.to_string())).collect();
    let plan = |out: &PathBuf| Plan::HandOff {
        url: server.url(),
        contender,
        key: key.to_owned(),
        out: out.clone(),
    };
    let mut children = Children::start(&out.iter().map(plan).collect::<Vec<_>>()).await;
    children.go(Window::soon(span));
    children.ended().await;

    let mut turns: Vec<(u64, u64, usize)> = Vec::new();
    for (process, path) in out.iter().enumerate() {
        turns.extend(read_numbers(path).chunks_exact(2).map(|t| (t[0], t[1], process)));
    }
    turns.sort_unstable();
    let mut latencies = Latencies::new();
    for pair in turns.windows(2).filter(|pair| pair[0].2 != pair[1].2) {
        latencies.record(pair[1].0.saturating_sub(pair[0].1));
    }
    push(series, contender.name(), &latencies);
}

async fn round_trips(
    series: &mut Series,
    server: &RedisServer,
    name: &'static str,
    pause: Duration,
    span: Duration,
) {
    let evalsha = Evalsha::empty(&server.url()).await;
    let end_ns = now_ns() + span.as_nanos() as u64;
    let mut latencies = Latencies::new();
    while now_ns() < end_ns {
        if !pause.is_zero() {
            sleep(pause).await;
        }
        let start_ns = now_ns();
        evalsha.round_trip(0, "bench:handoff").await;
        latencies.record(now_ns() - start_ns);
    }
    push(series, name, &latencies);
}

fn push(series: &mut Series, name: &str, latencies: &Latencies) {
    let us = |quantile| latencies.ns(quantile) / 1e3;
    series.push(name, P50, us(0.5));
    series.push(name, P99, us(0.99));
    series.push(name, COUNT, latencies.count() as f64);
}
