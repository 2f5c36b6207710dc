//! How rate and wait change with the load: more tasks on keys of their own, more on one key, more
//! processes on one key.
//!
//! - `plot`: the same as a drawing.

mod plot;

use std::path::Path;
use std::time::Duration;

use tests::redis::RedisServer;

use super::processes::{Ran, Team};
use crate::arguments::Arguments;
use crate::measure::{Window, commands_within, note};
use crate::report::Work;
use crate::rivals::Contender::{self, Ours, Poller, Rslock};
use crate::series::Series;

const CONTENDERS: [Contender; 3] = [Ours, Rslock, Poller { every_ms: 1 }];
const TASKS: [usize; 5] = [1, 8, 64, 512, 4_096];
const PROCESSES: [usize; 3] = [1, 4, 16];
/// Of each process.
const TASKS_EACH: usize = 16;
const SPAN: Duration = Duration::from_millis(800);

/// The drawing, in the docs.
const DRAWING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/scale.svg");

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    Keys,
    Tasks,
    Processes,
}

impl Axis {
    const ALL: [Self; 3] = [Self::Keys, Self::Tasks, Self::Processes];

    fn title(self) -> &'static str {
        match self {
            Self::Keys => "tasks, each on a key of its own",
            Self::Tasks => "tasks on one key",
            Self::Processes => "processes of 16 tasks on one key",
        }
    }

    fn points(self) -> &'static [usize] {
        match self {
            Self::Keys | Self::Tasks => &TASKS,
            Self::Processes => &PROCESSES,
        }
    }

    /// The row of a contender at a point of this axis.
    fn row(self, contender: Contender, point: usize) -> String {
        format!("{}: {point} {}", contender.name(), self.title())
    }
}

pub(crate) async fn run(arguments: &Arguments) -> Work {
    let server = RedisServer::start();
    let (mut series, mut run) = (Series::default(), 0);
    for _ in 0..arguments.repeats() {
        for axis in Axis::ALL {
            for &point in axis.points() {
                for contender in CONTENDERS {
                    run += 1;
                    let span = arguments.span(SPAN);
                    measure(&mut series, &server, (axis, point), contender, run, span).await;
                }
            }
        }
    }
    let mut notes = Vec::new();
    if arguments.plot {
        let drawn = plot::drawn(&series).expect("a drawing");
        std::fs::write(Path::new(DRAWING), drawn).expect("a file in docs/");
        notes.push("![rate and wait p99 against the load](scale.svg)".to_owned());
    }
    Work {
        name: "scale",
        title: "more tasks, more keys, more processes".to_owned(),
        compared: Vec::new(),
        targets: Vec::new(),
        series,
        notes,
    }
}

async fn measure(
    series: &mut Series,
    server: &RedisServer,
    (axis, point): (Axis, usize),
    contender: Contender,
    run: usize,
    span: Duration,
) {
    let (url, row) = (server.url(), axis.row(contender, point));
    let one = format!("bench:scale:{run}");
    let keys: Vec<String> = match axis {
        Axis::Keys => (0..point).map(|task| format!("{one}:{task}")).collect(),
        Axis::Tasks => vec![one; point],
        Axis::Processes => vec![one; TASKS_EACH],
    };
    let sent = |window| commands_within(server, contender, window);
    if axis == Axis::Processes {
        let team = Team { contender, processes: point, keys };
        let Ran { logs, window, sent, .. } = team.run(&url, span, sent).await;
        let all: Vec<_> = logs.into_iter().flatten().collect();
        return note(series, &row, &all, window, sent);
    }
    let rival = contender.connect(&url).await;
    let window = Window::soon(span);
    let run = tokio::spawn(rival.contend(keys, window));
    let sent = sent(window).await;
    let logs = run.await.expect("a run that does not panic");
    note(series, &row, &logs, window, sent);
}
