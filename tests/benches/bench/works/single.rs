//! One task, a free key: what a lock adds to the round trips that it cannot do without.

use std::future::ready;

use tests::clock::now_ns;
use tests::redis::RedisServer;

use crate::arguments::Arguments;
use crate::measure::COMMANDS;
use crate::report::{Target, Work};
use crate::rivals::Contender::{self, EvalshaEmpty, EvalshaSet, Ours, Poller, Rslock};
use crate::series::{Latencies, Series};

const P50: &str = "cycle p50 µs";
const P99: &str = "cycle p99 µs";

/// Rivals take turns in blocks this long, so that a change of the machine's pace meets all.
const BLOCK: usize = 100;

pub(crate) async fn run(arguments: &Arguments) -> Work {
    let server = RedisServer::start();
    let mut series = Series::default();
    let contenders = [Ours, EvalshaEmpty, EvalshaSet, Rslock, Poller { every_ms: 1 }];
    for _ in 0..arguments.repeats() {
        repeat(&mut series, &server, &contenders, arguments.count(3_000)).await;
    }
    let ratio = |other: Contender| series.ratio(Ours.name(), other.name(), P50).median;
    let targets = vec![
        Target::at_most("p50 ÷ two bare EVALSHA (set, delete)", ratio(EvalshaSet), 1.10),
        Target::at_most("p50 ÷ two EVALSHA of an empty script", ratio(EvalshaEmpty), 1.10),
    ];
    Work {
        name: "single",
        title: "one task, free key, acquire + release".to_owned(),
        compared: Some((Ours.name(), P50)),
        series,
        targets,
        notes: Vec::new(),
    }
}

async fn repeat(
    series: &mut Series,
    server: &RedisServer,
    contenders: &[Contender],
    cycles: usize,
) {
    let mut runs = Vec::new();
    for &contender in contenders {
        let rival = contender.connect(&server.url()).await;
        let cycles = Latencies::new();
        runs.push((contender, rival, cycles, 0));
    }
    for block in 0..=cycles / BLOCK {
        for (contender, rival, histogram, commands) in &mut runs {
            let key = format!("bench:single:{}", contender.name());
            server.reset_stats();
            for _ in 0..BLOCK {
                let start_ns = now_ns();
                rival.cycle(&key, || ready(())).await;
                // The first block warms connections and caches up.
                if block > 0 {
                    histogram.record(now_ns() - start_ns);
                }
            }
            if block > 0 {
                *commands += server.command_stats().calls_of(contender.verbs());
            }
        }
    }
    for (contender, _, histogram, commands) in runs {
        let us = |quantile| histogram.ns(quantile) / 1e3;
        series.push(contender.name(), P50, us(0.5));
        series.push(contender.name(), P99, us(0.99));
        series.push(contender.name(), COMMANDS, commands as f64 / histogram.count() as f64);
    }
}
