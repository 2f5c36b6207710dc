//! Many tasks of one process.

use std::cell::Cell;
use std::time::Duration;

use tests::redis::RedisServer;
use tokio::join;

use super::processes::{Ran, Team, total};
use crate::arguments::Arguments;
use crate::measure::{
    COMMANDS, CPU, CPU_TO_RSLOCK_MAX, JAIN, RATE, SERVER_CPU, SERVER_CPU_TO_BARE_MAX, STARVED,
    WAIT_MAX, WAIT_P99, commands_within, in_process, note, server_cpu_within,
};
use crate::report::{Target, Work};
use crate::rivals::Contender::{
    self, EvalshaEmpty, EvalshaOurs, EvalshaSet, Ours, Poller, Rslock, TokioMutex,
};
use crate::rivals::POLLERS;
use crate::series::Series;

pub(crate) async fn many_keys(arguments: &Arguments) -> Work {
    let contenders = [Ours, EvalshaOurs, EvalshaEmpty, EvalshaSet, Rslock, Poller { every_ms: 1 }];
    let server = RedisServer::start();
    let mut series = Series::default();
    let mut run = 0;
    for _ in 0..arguments.repeats() {
        for contender in contenders {
            run += 1;
            let keys = (0..64).map(|task| format!("bench:many:{run}:{task}")).collect();
            // A process of its own, as its processor time counts.
            let team = Team { contender, processes: 1, keys };
            let span = arguments.span(Duration::from_millis(1_200));
            let spent = Cell::new(0.0);
            let sent = async |window| {
                let commands = commands_within(&server, contender, window);
                let (commands, cpu_us) = join!(commands, server_cpu_within(&server, window));
                spent.set(cpu_us);
                commands
            };
            let Ran { logs, cpu_ns, window, sent } = team.run(&server.url(), span, sent).await;
            note(&mut series, contender.name(), &logs[0], window, sent);
            let each = |us: f64| us / total(&logs[0]).max(1) as f64;
            series.push(contender.name(), CPU, each(cpu_ns / 1e3));
            series.push(contender.name(), SERVER_CPU, each(spent.get()));
        }
    }
    let ours = Ours.name();
    let rate = |other: Contender| series.ratio(ours, other.name(), RATE).median;
    let targets = vec![
        Target::at_least("rate ÷ our two scripts sent bare", rate(EvalshaOurs), 0.85),
        Target::at_least("rate ÷ rslock", rate(Rslock), 0.85),
        Target::at_most(
            "server CPU ÷ 2 × EVALSHA (set, delete)",
            series.ratio(ours, EvalshaSet.name(), SERVER_CPU).median,
            SERVER_CPU_TO_BARE_MAX,
        ),
        Target::at_most(
            "client CPU ÷ rslock",
            series.ratio(ours, Rslock.name(), CPU).median,
            CPU_TO_RSLOCK_MAX,
        ),
    ];
    Work {
        name: "many-keys",
        title: "64 tasks on 64 keys, one process".to_owned(),
        compared: vec![(ours, RATE), (ours, CPU), (ours, SERVER_CPU)],
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
            0.35,
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
        compared: vec![(ours, RATE)],
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
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: vec![format!("The longest wait of ours over all repeats: {longest:.1} ms.")],
    }
}

/// Each contender in turn, repeat by repeat, each run on keys of its own.
pub(super) async fn measure(
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
