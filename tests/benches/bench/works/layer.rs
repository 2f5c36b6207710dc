//! Requests through the layer: over a server beside the two round trips that a lock cannot do without,
//! and over memory beside the handler alone.

use std::future::ready;

use tests::clock::now_ns;

use crate::arguments::Arguments;
use crate::measure::{CPU, RATE, in_process};
use crate::report::{Target, Work};
use crate::rivals::Contender::{self, EvalshaOurs, Handler, HandlerLayered, HandlerLimited, Ours};
use crate::series::Series;
use crate::works::single;

/// Keys that one task asks for, each in its turn. The layer gives a key up in the background, and it
/// is free again when its turn comes.
pub(crate) const KEYS: usize = 16;

const FREE: &str = "one task, free keys, µs each";
const HOT: &str = "64 tasks, one key, µs each";

const WITHOUT: Contender = HandlerLayered { has_body: false };
const WITH: Contender = HandlerLayered { has_body: true };

pub(crate) async fn over_redis(arguments: &Arguments) -> Work {
    let series = single::measure(arguments, &[WITHOUT, WITH, EvalshaOurs, Ours], KEYS).await;
    let target = |claim, ours: Contender| {
        let ratio = series.ratio(ours.name(), EvalshaOurs.name(), single::P50).median;
        Target::at_most(claim, ratio, 1.30)
    };
    let targets = vec![
        target("p50 ÷ our two scripts sent bare, no body", WITHOUT),
        target("p50 ÷ our two scripts sent bare, 1 KiB there and back", WITH),
    ];
    Work {
        name: "layer",
        title: "one request after the other through `LockLayer`, each of a free key".to_owned(),
        compared: vec![(WITHOUT.name(), single::P50), (WITHOUT.name(), CPU)],
        series,
        targets,
        notes: vec![
            "A request ends with its body. The release is sent then, and not waited for."
                .to_owned(),
        ],
    }
}

pub(crate) async fn over_memory(arguments: &Arguments) -> Work {
    let mut series = Series::default();
    for run in 0..arguments.repeats() {
        for contender in [WITHOUT, HandlerLimited, Handler] {
            free(&mut series, contender, arguments.count(200_000)).await;
            hot(&mut series, contender, run, arguments).await;
        }
    }
    let name = WITHOUT.name();
    let us = |figure| series.spread(name, figure).median;
    let targets = vec![
        Target::at_most("one task, free keys, µs each", us(FREE), 3.0),
        Target::at_most("64 tasks, one key, µs each", us(HOT), 2.0),
    ];
    Work {
        name: "layer-memory",
        title: "requests through `LockLayer` over memory".to_owned(),
        compared: vec![(name, FREE), (name, HOT)],
        series,
        targets,
        notes: Vec::new(),
    }
}

async fn free(series: &mut Series, contender: Contender, cycles: usize) {
    let rival = contender.connect("memory:").await;
    let keys: Vec<_> = (0..KEYS).map(|n| format!("free-{n}")).collect();
    let begun_ns = now_ns();
    for key in keys.iter().cycle().take(cycles) {
        rival.cycle(key, || ready(())).await;
    }
    series.push(contender.name(), FREE, (now_ns() - begun_ns) as f64 / 1e3 / cycles as f64);
}

async fn hot(series: &mut Series, contender: Contender, run: usize, arguments: &Arguments) {
    let keys = vec![format!("hot-{run}"); 64];
    let span = arguments.span(std::time::Duration::from_millis(1_200));
    let mut rates = Series::default();
    in_process(&mut rates, "memory:", contender, keys, span, |_| ready(None)).await;
    series.push(contender.name(), HOT, 1e6 / rates.spread(contender.name(), RATE).median);
}
