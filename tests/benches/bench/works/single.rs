//! One task, a free key: what a lock adds to the round trips that it cannot do without.

use std::future::ready;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tests::clock::{cpu_ns, now_ns};
use tests::redis::RedisServer;
use tests::worker::{Reply, Worker};

use crate::arguments::Arguments;
use crate::child::{Input, Plan, answer, spawn};
use crate::measure::{COMMANDS, CPU, CPU_TO_RSLOCK_MAX, SERVER_CPU, SERVER_CPU_TO_BARE_MAX};
use crate::report::{Target, Work};
use crate::rivals::Connected;
use crate::rivals::Contender::{self, EvalshaEmpty, EvalshaOurs, EvalshaSet, Ours, Poller, Rslock};
use crate::series::{Latencies, Series};

pub(super) const P50: &str = "cycle p50 µs";
const P99: &str = "cycle p99 µs";

/// Rivals take turns in blocks this long, so that a change of the machine's pace meets all.
const BLOCK: usize = 100;

pub(crate) async fn run(arguments: &Arguments) -> Work {
    let contenders = [Ours, EvalshaOurs, EvalshaEmpty, EvalshaSet, Rslock, Poller { every_ms: 1 }];
    let series = measure(arguments, &contenders, 1).await;
    let ratio = |other: Contender, figure| series.ratio(Ours.name(), other.name(), figure).median;
    let targets = vec![
        Target::at_most("p50 ÷ two bare EVALSHA (set, delete)", ratio(EvalshaSet, P50), 1.10),
        Target::at_most("p50 ÷ two EVALSHA of an empty script", ratio(EvalshaEmpty, P50), 1.10),
        Target::at_most("client CPU ÷ rslock", ratio(Rslock, CPU), CPU_TO_RSLOCK_MAX),
        Target::at_most(
            "server CPU ÷ 2 × EVALSHA (set, delete)",
            ratio(EvalshaSet, SERVER_CPU),
            SERVER_CPU_TO_BARE_MAX,
        ),
    ];
    Work {
        name: "single",
        title: "one task, free key, acquire + release".to_owned(),
        compared: vec![(Ours.name(), P50), (Ours.name(), CPU), (Ours.name(), SERVER_CPU)],
        series,
        targets,
        notes: Vec::new(),
    }
}

/// Each contender by turns, with so many keys in turn.
pub(super) async fn measure(
    arguments: &Arguments,
    contenders: &[Contender],
    keys: usize,
) -> Series {
    let server = RedisServer::start();
    let mut series = Series::default();
    for _ in 0..arguments.repeats() {
        repeat(&mut series, &server, contenders, keys, arguments.count(3_000)).await;
    }
    series
}

/// The child's side: so many cycles for each line.
pub(crate) async fn cycle_in_blocks(
    rival: &Connected,
    keys: &[String],
    block: usize,
    input: &mut Input,
) {
    answer(&Reply::done());
    loop {
        input.line().await;
        let before_ns = cpu_ns();
        let mut cycles_ns = Vec::with_capacity(block);
        for key in keys.iter().cycle().take(block) {
            let start_ns = now_ns();
            rival.cycle(key, || ready(())).await;
            cycles_ns.push(now_ns() - start_ns);
        }
        let done = Block { cycles_ns, cpu_ns: cpu_ns() - before_ns };
        answer(&Reply { value: Some(json!(done)), ..Reply::done() });
    }
}

/// The figures of a child for one line.
#[derive(Debug, Serialize, Deserialize)]
struct Block {
    cycles_ns: Vec<u64>,
    cpu_ns: u64,
}

/// One rival, in a process of its own, as its processor time counts.
struct Run {
    contender: Contender,
    child: Worker,
    cycles: Latencies,
    cpu_ns: u64,
    server_us: f64,
    commands: u64,
}

impl Run {
    async fn start(contender: Contender, server: &RedisServer, keys: usize) -> Self {
        let keys = (0..keys).map(|n| format!("bench:single:{}:{n}", contender.name())).collect();
        let mut child = spawn(&Plan::Block { url: server.url(), contender, keys, block: BLOCK });
        child.reply().await;
        Run { contender, child, cycles: Latencies::new(), cpu_ns: 0, server_us: 0.0, commands: 0 }
    }

    async fn block(&mut self) -> Block {
        let reply = self.child.ask("").await;
        serde_json::from_value(reply.value.expect("a block")).expect("a block")
    }

    fn note(&self, series: &mut Series) {
        let name = self.contender.name();
        let count = self.cycles.count() as f64;
        let us = |quantile| self.cycles.ns(quantile) / 1e3;
        series.push(name, P50, us(0.5));
        series.push(name, P99, us(0.99));
        series.push(name, CPU, self.cpu_ns as f64 / 1e3 / count);
        series.push(name, SERVER_CPU, self.server_us / count);
        series.push(name, COMMANDS, self.commands as f64 / count);
    }
}

async fn repeat(
    series: &mut Series,
    server: &RedisServer,
    contenders: &[Contender],
    keys: usize,
    cycles: usize,
) {
    let mut runs = Vec::new();
    for &contender in contenders {
        runs.push(Run::start(contender, server, keys).await);
    }
    for block in 0..=cycles / BLOCK {
        for run in &mut runs {
            server.reset_stats();
            let before_us = server.cpu_us();
            let done = run.block().await;
            // The first block warms connections and caches up.
            if block > 0 {
                done.cycles_ns.iter().for_each(|ns| run.cycles.record(*ns));
                run.cpu_ns += done.cpu_ns;
                run.server_us += server.cpu_us() - before_us;
                run.commands += server.command_stats().calls_of(run.contender.verbs());
            }
        }
    }
    runs.iter().for_each(|run| run.note(series));
}
