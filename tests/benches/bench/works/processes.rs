//! One hot key, four processes of 16 tasks.

use std::path::PathBuf;
use std::time::Duration;

use tests::redis::RedisServer;

use crate::arguments::Arguments;
use crate::child::{Children, Plan, read_logs};
use crate::measure::{
    COMMANDS, JAIN, RATE, Sent, TaskLog, WAIT_MAX, Window, commands_within, note,
};
use crate::report::{Target, Work};
use crate::rivals::Contender::{self, Ours, OursStrict, Rslock};
use crate::rivals::POLLERS;
use crate::series::{Series, jain};

const PROCESSES: usize = 4;
const TASKS: usize = 16;

pub(super) const JAIN_PROCESSES: &str = "Jain, processes";
const CHANGES: &str = "changes of process/s";

pub(crate) async fn batched(arguments: &Arguments) -> Work {
    let contenders = [&[Ours, Rslock][..], &POLLERS].concat();
    let series = measure(arguments, &contenders).await;
    let ours = Ours.name();
    let targets = vec![
        Target::at_least("rate ÷ rslock", series.ratio(ours, Rslock.name(), RATE).median, 30.0),
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.95),
        Target::at_least(
            "Jain over processes, worst repeat",
            series.spread(ours, JAIN_PROCESSES).min,
            0.95,
        ),
        Target::at_most("longest wait ms, all repeats", series.spread(ours, WAIT_MAX).max, 100.0),
    ];
    Work {
        name: "processes",
        title: "one hot key, 4 processes × 16 tasks, default fairness".to_owned(),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: Vec::new(),
    }
}

pub(crate) async fn strict(arguments: &Arguments) -> Work {
    let series = measure(arguments, &[OursStrict, Rslock]).await;
    let ours = OursStrict.name();
    let targets = vec![
        Target::at_least("rate ÷ rslock", series.ratio(ours, Rslock.name(), RATE).median, 0.9),
        Target::at_least(
            "changes of process per acquisition, worst repeat",
            series.ratio_of(ours, CHANGES, RATE).min,
            0.99,
        ),
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.99),
        Target::at_most(
            "commands per acquisition, worst repeat",
            series.spread(ours, COMMANDS).max,
            2.05,
        ),
    ];
    Work {
        name: "strict",
        title: "the same, `Fairness::Strict`".to_owned(),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: Vec::new(),
    }
}

pub(super) async fn measure(arguments: &Arguments, contenders: &[Contender]) -> Series {
    let server = RedisServer::start();
    let mut series = Series::default();
    let mut run = 0;
    for _ in 0..arguments.repeats() {
        for &contender in contenders {
            run += 1;
            let keys = vec![format!("bench:processes:{run}"); TASKS];
            let team = Team { contender, processes: PROCESSES, keys };
            let span = arguments.span(Duration::from_secs(2));
            let sent = |window| commands_within(&server, contender, window);
            team.run_and_note(&mut series, &server.url(), span, sent).await;
        }
    }
    series
}

/// Several processes with some tasks each.
pub(crate) struct Team {
    pub(crate) contender: Contender,
    pub(crate) processes: usize,
    /// The key of each task, the same in all processes.
    pub(crate) keys: Vec<String>,
}

/// The results of a team.
pub(crate) struct Ran {
    /// The logs of each process.
    pub(crate) logs: Vec<Vec<TaskLog>>,
    /// The processor time of all processes.
    pub(crate) cpu_ns: f64,
    pub(crate) window: Window,
    pub(crate) sent: Sent,
}

impl Team {
    /// Runs for `span`. `sent` counts within the window.
    pub(crate) async fn run<C: Future<Output = Sent>>(
        &self,
        url: &str,
        span: Duration,
        sent: impl FnOnce(Window) -> C,
    ) -> Ran {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let out: Vec<PathBuf> =
            (0..self.processes).map(|n| folder.path().join(n.to_string())).collect();
        let plan = |out: &PathBuf| Plan::Contend {
            url: url.to_owned(),
            contender: self.contender,
            keys: self.keys.clone(),
            out: out.clone(),
        };
        let mut children = Children::start(&out.iter().map(plan).collect::<Vec<_>>()).await;
        let window = Window::soon(span);
        children.go(window);
        let sent = sent(window).await;
        let replies = children.ended().await;
        let cpu_ns = replies.iter().filter_map(|reply| reply.value.as_ref()?.as_f64()).sum();
        let logs = out.iter().map(|path| read_logs(path)).collect();
        Ran { logs, cpu_ns, window, sent }
    }

    /// Runs, and notes the figures of those who share one key.
    pub(crate) async fn run_and_note<C: Future<Output = Sent>>(
        &self,
        series: &mut Series,
        url: &str,
        span: Duration,
        sent: impl FnOnce(Window) -> C,
    ) {
        let Ran { logs, window, sent, .. } = self.run(url, span, sent).await;
        let shares: Vec<u64> = logs.iter().map(|logs| total(logs)).collect();
        let changes = changes_of_process(&logs);
        let all: Vec<TaskLog> = logs.into_iter().flatten().collect();
        let name = self.contender.name();
        note(series, name, &all, window, sent);
        series.push(name, JAIN_PROCESSES, jain(&shares));
        series.push(name, CHANGES, changes as f64 / window.seconds());
    }
}

pub(crate) fn total(logs: &[TaskLog]) -> u64 {
    logs.iter().map(|log| log.grants.len() as u64).sum()
}

/// How often a grant follows one of another process.
fn changes_of_process(logs: &[Vec<TaskLog>]) -> usize {
    let mut grants: Vec<(u64, usize)> = Vec::new();
    for (process, logs) in logs.iter().enumerate() {
        let times = logs.iter().flat_map(|log| &log.grants).map(|grant| (grant.t_ns, process));
        grants.extend(times);
    }
    grants.sort_unstable();
    grants.windows(2).filter(|pair| pair[0].1 != pair[1].1).count()
}
