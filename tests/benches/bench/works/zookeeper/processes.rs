//! One hot key, several processes.

use std::time::Duration;

use super::curator::{self, Crowd};
use super::{Load, server};
use crate::arguments::Arguments;
use crate::measure::{JAIN, PACKETS, RATE, packets_within};
use crate::report::{Target, Work};
use crate::rivals::Contender::{Ours, OursStrict};
use crate::series::Series;
use crate::works::processes::Team;

pub(crate) async fn strict(arguments: &Arguments) -> Work {
    let load = Load::now();
    let series = measure(arguments, 4, 16).await;
    let ours = OursStrict.name();
    let rate = series.ratio(ours, curator::NAME, RATE).median;
    let targets = vec![
        Target::at_least("rate ÷ Curator's, 4 processes × 16 threads", rate, 1.2),
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.99),
        Target::at_most(
            "packets per acquisition ÷ Curator's",
            series.ratio(ours, curator::NAME, PACKETS).median,
            1.05,
        ),
    ];
    Work {
        name: "zk-strict",
        title: "ZooKeeper, one hot key, 4 processes × 16 tasks (Curator: threads)".to_owned(),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: vec![load.note()],
    }
}

pub(crate) async fn hand_off(arguments: &Arguments) -> Work {
    let load = Load::now();
    let series = measure(arguments, 2, 1).await;
    let ours = OursStrict.name();
    let rate = series.ratio(ours, curator::NAME, RATE).median;
    let targets = vec![Target::at_least("rate ÷ Curator's, 2 processes × 1 thread", rate, 1.0)];
    Work {
        name: "zk-handoff",
        title: "ZooKeeper, two processes hand one key to each other".to_owned(),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: vec![load.note()],
    }
}

/// Ours strict before and after Curator, so that a change of the machine's pace meets both.
async fn measure(arguments: &Arguments, processes: usize, tasks: u32) -> Series {
    let server = server().await;
    let mut series = Series::default();
    let span = arguments.span(Duration::from_secs(3));
    for repeat in 0..arguments.repeats() {
        // A key for each run: a child that ends leaves its place in line to its session's end.
        let key = |run: &str| format!("bench-processes-{repeat}-{run}");
        let path = format!("/{}", key("curator"));
        let crowd = Crowd::ready(&server, &path, processes, tasks, span).await;
        let mut rounds = Series::default();
        let url = server.url();
        let team = |contender, run| {
            let keys = vec![key(run); tasks as usize];
            Team { contender, processes, keys }
        };
        let sent = |window| packets_within(&server, window);
        team(OursStrict, "strict-1").run_and_note(&mut rounds, &url, span, sent).await;
        crowd.run(&mut rounds, &server).await;
        team(OursStrict, "strict-2").run_and_note(&mut rounds, &url, span, sent).await;
        team(Ours, "default").run_and_note(&mut rounds, &url, span, sent).await;
        series.push_medians(&rounds);
    }
    series
}
