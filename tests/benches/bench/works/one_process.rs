//! Many tasks of one process.

use std::time::Duration;

use tests::redis::RedisServer;

use crate::arguments::Arguments;
use crate::measure::{
    COMMANDS, JAIN, RATE, STARVED, WAIT_MAX, WAIT_P99, commands_within, in_process,
};
use crate::report::{Target, Work};
use crate::rivals::Contender::{self, EvalshaEmpty, EvalshaSet, Ours, Poller, Rslock, TokioMutex};
use crate::rivals::POLLERS;
use crate::series::Series;

pub(crate) async fn many_keys(arguments: &Arguments) -> Work {
    let contenders = [Ours, EvalshaEmpty, EvalshaSet, Rslock, Poller { every_ms: 1 }];
    let keys = |run: usize| (0..64).map(|task| format!("bench:many:{run}:{task}")).collect();
    let series = measure(arguments, &contenders, keys, Duration::from_millis(1_200)).await;
    let half = |bare: Contender| series.ratio(Ours.name(), bare.name(), RATE).median;
    let targets = vec![
        Target::at_least("rate ÷ half the EVALSHA rate (set, delete)", half(EvalshaSet), 0.9),
        Target::at_least("rate ÷ half the EVALSHA rate, empty script", half(EvalshaEmpty), 0.9),
    ];
    Work {
        name: "many-keys",
        title: "64 tasks on 64 keys, one process".to_owned(),
        compared: Some((Ours.name(), RATE)),
        targets,
        series,
        notes: Vec::new(),
    }
}

pub(crate) async fn hot_64(arguments: &Arguments) -> Work {
    let contenders = [&[Ours, TokioMutex, Rslock][..], &POLLERS].concat();
    let keys = |run: usize| vec![format!("bench:hot-64:{run}"); 64];
    let series = measure(arguments, &contenders, keys, Duration::from_millis(1_200)).await;
    let ours = Ours.name();
    let targets = vec![
        Target::at_least(
            "rate ÷ tokio::sync::Mutex",
            series.ratio(ours, TokioMutex.name(), RATE).median,
            0.4,
        ),
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.99),
        Target::at_most(
            "commands per acquisition, worst repeat",
            series.spread(ours, COMMANDS).max,
            0.05,
        ),
    ];
    Work {
        name: "hot-64",
        title: "one hot key, one process, 64 tasks".to_owned(),
        compared: Some((ours, RATE)),
        series,
        targets,
        notes: Vec::new(),
    }
}

pub(crate) async fn hot_1000(arguments: &Arguments) -> Work {
    let contenders = [Ours, TokioMutex, Rslock, Poller { every_ms: 1 }, Poller { every_ms: 100 }];
    let keys = |run: usize| vec![format!("bench:hot-1000:{run}"); 1_000];
    let series = measure(arguments, &contenders, keys, Duration::from_millis(2_000)).await;
    let ours = Ours.name();
    let targets = vec![
        Target::at_least("rate ÷ rslock", series.ratio(ours, Rslock.name(), RATE).median, 60.0),
        Target::at_most("tasks starved, worst repeat", series.spread(ours, STARVED).max, 0.0),
        Target::at_most("wait p99 ms, worst repeat", series.spread(ours, WAIT_P99).max, 50.0),
    ];
    let longest = series.spread(ours, WAIT_MAX).max;
    Work {
        name: "hot-1000",
        title: "one hot key, one process, 1,000 tasks".to_owned(),
        compared: Some((ours, RATE)),
        series,
        targets,
        notes: vec![format!("The longest wait of ours over all repeats: {longest:.1} ms.")],
    }
}

/// Each contender in turn, repeat by repeat, each run on keys of its own.
async fn measure(
    arguments: &Arguments,
    contenders: &[Contender],
    keys: impl Fn(usize) -> Vec<String>,
    span: Duration,
) -> Series {
    let server = RedisServer::start();
    let mut series = Series::default();
    let mut run = 0;
    for _ in 0..arguments.repeats() {
        for &contender in contenders {
            run += 1;
            let span = arguments.span(span);
            let sent = |window| commands_within(&server, contender, window);
            in_process(&mut series, &server.url(), contender, keys(run), span, sent).await;
        }
    }
    series
}
