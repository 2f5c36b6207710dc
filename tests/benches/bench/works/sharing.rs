//! A key that several hold together: readers, a writer among them, and permits.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::poll;
use lock_core::{LockBuilder, LockGuard};
use tests::clock::now_ns;
use tests::redis::RedisServer;
use tokio::join;

use super::{one_process, processes};
use crate::arguments::Arguments;
use crate::measure::{COMMANDS, JAIN, RATE, STARVED, WAIT_MAX, Window, contend, note};
use crate::report::{Target, Work};
use crate::rivals::Contender::{OursPermits, OursShared, SlotPoller, TokioRwLock, TokioSemaphore};
use crate::rivals::{LocalRwLock, OurClient, PERMITS, Rival, client, options};
use crate::series::Series;

/// Those who read beside each other.
const READERS: usize = 64;

/// The time of the slice that others have once one of another process waits.
const SLICE_MS: f64 = 20.0;

pub(crate) async fn readers(arguments: &Arguments) -> Work {
    let keys = |run: usize| vec![format!("bench:readers:{run}"); READERS];
    let contenders = [OursShared, TokioRwLock];
    let span = Duration::from_millis(1_200);
    let mut series = one_process::measure(arguments, &contenders, keys, span).await;
    let ours = OursShared.name();
    note_together(&mut series, arguments, ours, WATCHED, LockBuilder::shared).await;
    let targets = vec![
        Target::at_most(
            "16,000 watched readers released together ms, worst repeat",
            series.spread(ours, TOGETHER).max,
            250.0,
        ),
        Target::at_least(
            "rate ÷ tokio::sync::RwLock",
            series.ratio(ours, TokioRwLock.name(), RATE).median,
            0.5,
        ),
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.95),
        Target::at_most(
            "commands per acquisition, worst repeat",
            series.spread(ours, COMMANDS).max,
            0.05,
        ),
    ];
    Work {
        name: "readers",
        title: format!("one key that {READERS} tasks of one process read"),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: Vec::new(),
    }
}

/// How long it takes to give up what many hold of one key at once.
const TOGETHER: &str = "released together ms";

/// As many as a server has connections, each of which watches its hold.
const WATCHED: usize = 16_000;

/// As many permits of one key.
const MANY_PERMITS: u32 = 1_024;

/// Each has one more of the key by `hold`, watches it, and gives it up together with the others.
async fn together(many: usize, hold: impl Fn() -> LockBuilder) -> f64 {
    let mut guards = Vec::with_capacity(many);
    for _ in 0..many {
        guards.push(hold().acquire().await.expect("a free key, or one to share"));
    }
    let mut watched: Vec<_> = guards.iter().map(|guard| Box::pin(guard.lost())).collect();
    for lost in &mut watched {
        assert!(poll!(lost).is_pending(), "it is held");
    }
    let start_ns = now_ns();
    for released in join_all(guards.into_iter().map(LockGuard::release)).await {
        released.expect("a held lock");
    }
    (now_ns() - start_ns) as f64 / 1e6
}

/// The same on a key of its own for each repeat, noted for `name`.
async fn note_together(
    series: &mut Series,
    arguments: &Arguments,
    name: &str,
    many: usize,
    hold: impl Fn(LockBuilder) -> LockBuilder,
) {
    let server = RedisServer::start();
    let locks = client(&server.url(), options()).await;
    for run in 0..arguments.repeats() {
        let hold = || hold(locks.lock(format!("bench:together:{run}")));
        series.push(name, TOGETHER, together(many, hold).await);
    }
}

const HERE: &str = "ours, a writer of the process";
const THERE: &str = "ours, a writer of another";
const LOCAL: &str = "tokio::sync::RwLock";

/// How often the readers get the key meanwhile.
const READS: &str = "reads/s";
const READERS_STARVED: &str = "readers starved";

pub(crate) async fn writer(arguments: &Arguments) -> Work {
    let server = RedisServer::start();
    let mut series = Series::default();
    for run in 0..arguments.repeats() {
        for name in [HERE, THERE, LOCAL] {
            let key = format!("bench:writer:{run}:{name}");
            let span = arguments.span(Duration::from_secs(2));
            if name == LOCAL {
                let lock = LocalRwLock::default();
                among(&mut series, name, (lock.clone(), lock.writer()), &key, span).await;
                continue;
            }
            let locks = client(&server.url(), options()).await;
            let other = client(&server.url(), options()).await;
            let readers = OurClient::of(locks.clone(), options().shared());
            let writer = OurClient::of(if name == HERE { locks } else { other }, options());
            among(&mut series, name, (readers, writer), &key, span).await;
        }
    }
    let longest = |name| series.spread(name, WAIT_MAX).max;
    let bound = 2.0 * SLICE_MS;
    let targets = vec![
        Target::at_most("longest wait ms of a writer of the process", longest(HERE), bound),
        Target::at_most("longest wait ms of a writer of another", longest(THERE), bound),
        Target::at_most(
            "readers starved by it, worst repeat",
            series.spread(HERE, READERS_STARVED).max.max(series.spread(THERE, READERS_STARVED).max),
            0.0,
        ),
    ];
    Work {
        name: "writer",
        title: format!("one writer among {READERS} readers of one process; its own figures"),
        compared: Vec::new(),
        series,
        targets,
        notes: vec!["The bound of its wait is two slices of the fairness bounds.".to_owned()],
    }
}

/// One writer among the readers: its figures, and how the readers fare.
async fn among<R: Rival>(
    series: &mut Series,
    name: &str,
    (readers, writer): (R, R),
    key: &str,
    span: Duration,
) {
    let window = Window::soon(span);
    let read = tokio::spawn(contend(readers, vec![key.to_owned(); READERS], window));
    let written = tokio::spawn(contend(writer, vec![key.to_owned()], window));
    let (read, written) = join!(read, written);
    let (read, written) = (read.expect("it ends"), written.expect("it ends"));
    note(series, name, &written, window, None);
    // The figures of the work are the writer's; of the readers these two.
    let shares = read.iter().map(|log| log.grants.len());
    series.push(name, READS, shares.clone().sum::<usize>() as f64 / window.seconds());
    series.push(name, READERS_STARVED, shares.filter(|share| *share == 0).count() as f64);
}

pub(crate) async fn permits(arguments: &Arguments) -> Work {
    let contenders = [OursPermits, SlotPoller { every_ms: 1 }, SlotPoller { every_ms: 50 }];
    let mut series = processes::measure(arguments, &contenders).await;
    let keys = |run: usize| vec![format!("bench:permits:{run}"); 64];
    let span = Duration::from_millis(1_200);
    let local = one_process::measure(arguments, &[TokioSemaphore], keys, span).await;
    for figure in local.figures() {
        for value in local.get(TokioSemaphore.name(), figure) {
            series.push(TokioSemaphore.name(), figure, *value);
        }
    }
    let ours = OursPermits.name();
    let permits = |lock: LockBuilder| lock.permits(MANY_PERMITS);
    note_together(&mut series, arguments, ours, MANY_PERMITS as usize, permits).await;
    let poller = SlotPoller { every_ms: 1 }.name();
    let targets = vec![
        Target::at_least("rate ÷ SET NX semaphore", series.ratio(ours, poller, RATE).median, 1.0),
        Target::at_most(
            "commands per acquisition, worst repeat",
            series.spread(ours, COMMANDS).max,
            2.1,
        ),
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.95),
        Target::at_most("tasks starved, worst repeat", series.spread(ours, STARVED).max, 0.0),
        Target::at_most("longest wait ms, all repeats", series.spread(ours, WAIT_MAX).max, 200.0),
        Target::at_most(
            "1,024 permits released together ms, worst repeat",
            series.spread(ours, TOGETHER).max,
            250.0,
        ),
    ];
    Work {
        name: "permits",
        title: format!("{PERMITS} permits of one key, 4 processes × 16 tasks"),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: vec!["`tokio::sync::Semaphore` is in one process of 64 tasks.".to_owned()],
    }
}
