//! One hot key, one process.

use std::time::Duration;

use super::curator::{self, Crowd};
use super::{Load, ROUNDS, server};
use crate::arguments::Arguments;
use crate::measure::{JAIN, PACKETS, RATE, in_process, packets_within};
use crate::report::{Target, Work};
use crate::rivals::Contender::Ours;
use crate::series::Series;

const TASKS: u32 = 64;

pub(crate) async fn run(arguments: &Arguments) -> Work {
    let load = Load::now();
    let server = server().await;
    let mut series = Series::default();
    // Long enough that the start of Curator's threads, which its figures begin with, is little.
    let span = arguments.span(Duration::from_millis(2_500));
    for repeat in 0..arguments.repeats() {
        let mut crowds = Vec::new();
        for round in 0..ROUNDS {
            let key = format!("bench-hot-{repeat}-{round}");
            let path = format!("/{key}-curator");
            crowds.push((key, Crowd::ready(&server, &path, 1, TASKS, span).await));
        }
        let mut rounds = Series::default();
        for (key, crowd) in crowds {
            let keys = vec![key; TASKS as usize];
            let sent = |window| packets_within(&server, window);
            in_process(&mut rounds, &server.url(), Ours, keys, span, sent).await;
            crowd.run(&mut rounds, &server).await;
        }
        series.push_medians(&rounds);
    }
    let ours = Ours.name();
    let targets = vec![
        Target::at_least(
            "rate ÷ Curator's, 64 threads of one client",
            series.ratio(ours, curator::NAME, RATE).median,
            50.0,
        ),
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.99),
        Target::at_most(
            "packets per acquisition, worst repeat",
            series.spread(ours, PACKETS).max,
            0.05,
        ),
    ];
    Work {
        name: "zk-hot-64",
        title: "ZooKeeper, one hot key, one process, 64 tasks (Curator: threads)".to_owned(),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: vec![load.note()],
    }
}
