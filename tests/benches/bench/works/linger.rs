//! `linger` 5 ms: the same process takes a key again that it gave back a moment ago.

use std::time::Duration;

use tests::clock::now_ns;
use tests::redis::RedisServer;
use tokio::sync::Mutex;

use crate::arguments::Arguments;
use crate::measure::COMMANDS;
use crate::report::{Target, Work};
use crate::rivals::Contender::{Ours, TokioMutex};
use crate::rivals::{client, options};
use crate::series::{Latencies, Series};

const ACQUIRE: &str = "acquire p50 ns";
const CYCLE: &str = "acquire + release p50 ns";

pub(crate) async fn run(arguments: &Arguments) -> Work {
    let server = RedisServer::start();
    let mut series = Series::default();
    let cycles = arguments.count(200_000);
    for _ in 0..arguments.repeats() {
        ours(&mut series, &server, cycles).await;
        mutex(&mut series, cycles).await;
    }
    let acquire_us = series.spread(Ours.name(), ACQUIRE).median / 1e3;
    let commands = series.spread(Ours.name(), COMMANDS).max;
    let targets = vec![
        Target::at_most("acquire p50 µs", acquire_us, 1.0),
        // Less than one command in the whole run, of 50,000 cycles or more.
        Target::at_most("commands per acquisition, worst repeat", commands, 0.00002),
    ];
    Work {
        name: "linger",
        title: "`linger` 5 ms, the same process re-acquires".to_owned(),
        compared: vec![(Ours.name(), CYCLE)],
        series,
        targets,
        notes: Vec::new(),
    }
}

async fn ours(series: &mut Series, server: &RedisServer, cycles: usize) {
    let locks = client(&server.url(), options().with_linger(Duration::from_millis(5))).await;
    let mut times = Times::new();
    // The one that talks to the store.
    let first = locks.lock("bench:linger").acquire().await.expect("a free key");
    first.release().await.expect("a held lock");
    server.reset_stats();
    for _ in 0..cycles {
        let start_ns = now_ns();
        let guard = locks.lock("bench:linger").acquire().await.expect("a free key");
        let held_ns = now_ns();
        guard.release().await.expect("a held lock");
        times.record(start_ns, held_ns);
    }
    let commands = server.command_stats().calls_of(Ours.verbs());
    times.push(series, Ours.name());
    series.push(Ours.name(), COMMANDS, commands as f64 / cycles as f64);
}

async fn mutex(series: &mut Series, cycles: usize) {
    let mutex = Mutex::new(());
    let mut times = Times::new();
    for _ in 0..cycles {
        let start_ns = now_ns();
        let guard = mutex.lock().await;
        let held_ns = now_ns();
        drop(guard);
        times.record(start_ns, held_ns);
    }
    times.push(series, TokioMutex.name());
}

struct Times {
    acquire: Latencies,
    cycle: Latencies,
}

impl Times {
    fn new() -> Self {
        Times { acquire: Latencies::new(), cycle: Latencies::new() }
    }

    fn record(&mut self, start_ns: u64, held_ns: u64) {
        let end_ns = now_ns();
        self.acquire.record(held_ns - start_ns);
        self.cycle.record(end_ns - start_ns);
    }

    fn push(&self, series: &mut Series, name: &str) {
        series.push(name, ACQUIRE, self.acquire.ns(0.5));
        series.push(name, CYCLE, self.cycle.ns(0.5));
    }
}
