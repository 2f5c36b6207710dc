//! Many tasks, one after the other at each key, for a fixed time.

use std::future::ready;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use tests::clock::{cpu_ns, now_ns};
use tests::redis::RedisServer;
use tests::zookeeper::ZooKeeperServer;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::rivals::{Contender, Rival};
use crate::series::{Latencies, Series, jain};

/// The time, on the machine's monotonic clock, whose grants count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

impl Window {
    /// Begins after a warm-up of 150 ms.
    pub(crate) fn soon(span: Duration) -> Self {
        let start_ns = now_ns() + 150_000_000;
        Window { start_ns, end_ns: start_ns + span.as_nanos() as u64 }
    }

    pub(crate) async fn start(&self) {
        sleep(Duration::from_nanos(self.start_ns.saturating_sub(now_ns()))).await;
    }

    pub(crate) async fn end(&self) {
        sleep(Duration::from_nanos(self.end_ns.saturating_sub(now_ns()))).await;
    }

    /// Processor time that this process takes within it.
    pub(crate) async fn cpu_ns(&self) -> u64 {
        self.start().await;
        let before_ns = cpu_ns();
        self.end().await;
        cpu_ns() - before_ns
    }

    pub(crate) fn seconds(&self) -> f64 {
        (self.end_ns - self.start_ns) as f64 / 1e9
    }
}

/// One grant of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Grant {
    pub(crate) t_ns: u64,
    pub(crate) wait_ns: u64,
}

/// The grants of one task within the window.
#[derive(Debug, Default)]
pub(crate) struct TaskLog {
    pub(crate) grants: Vec<Grant>,
    /// Since when it waited at the window's end, if it did.
    pub(crate) waiting_since_ns: Option<u64>,
}

/// Sends its log when dropped, so that a task may be stopped anywhere.
struct Logger {
    log: TaskLog,
    to: Sender<TaskLog>,
}

impl Drop for Logger {
    fn drop(&mut self) {
        let _ = self.to.send(std::mem::take(&mut self.log));
    }
}

/// One task per key in `keys`, each taking and releasing it over and over until the window ends.
pub(crate) async fn contend<R: Rival>(rival: R, keys: Vec<String>, window: Window) -> Vec<TaskLog> {
    let (to, logs) = channel();
    let mut tasks = JoinSet::new();
    for key in keys {
        let mut logger = Logger { log: TaskLog::default(), to: to.clone() };
        let rival = rival.clone();
        tasks.spawn(async move {
            loop {
                let asked_ns = now_ns();
                logger.log.waiting_since_ns = Some(asked_ns);
                let log = &mut logger.log;
                rival
                    .cycle(&key, || {
                        let t_ns = now_ns();
                        log.waiting_since_ns = None;
                        if (window.start_ns..window.end_ns).contains(&t_ns) {
                            log.grants.push(Grant { t_ns, wait_ns: t_ns - asked_ns });
                        }
                        ready(())
                    })
                    .await;
            }
        });
    }
    drop(to);
    window.end().await;
    tasks.shutdown().await;
    logs.into_iter().collect()
}

/// The number that the clients of a run have sent, by the server's count, and the name of its
/// figure.
pub(crate) type Sent = Option<(&'static str, u64)>;

/// Runs `contender` in this process and notes its figures. `sent` counts within the window.
pub(crate) async fn in_process<C: Future<Output = Sent>>(
    series: &mut Series,
    url: &str,
    contender: Contender,
    keys: Vec<String>,
    span: Duration,
    sent: impl FnOnce(Window) -> C,
) {
    let rival = contender.connect(url).await;
    let window = Window::soon(span);
    let run = tokio::spawn(rival.contend(keys, window));
    let sent = sent(window).await;
    let logs = run.await.expect("a run that does not panic");
    note(series, contender.name(), &logs, window, sent);
}

/// How many commands the clients of `contender` send within the window.
pub(crate) async fn commands_within(
    server: &RedisServer,
    contender: Contender,
    window: Window,
) -> Sent {
    window.start().await;
    server.reset_stats();
    window.end().await;
    let verbs = contender.verbs();
    (!verbs.is_empty()).then(|| (COMMANDS, server.command_stats().calls_of(verbs)))
}

/// The processor time that a server spends within the window, in microseconds.
pub(crate) async fn server_cpu_within(server: &RedisServer, window: Window) -> f64 {
    window.start().await;
    let before = server.cpu_us();
    window.end().await;
    server.cpu_us() - before
}

/// How many packets the clients of a ZooKeeper send within the window.
pub(crate) async fn packets_within(server: &ZooKeeperServer, window: Window) -> Sent {
    window.start().await;
    server.reset_stats();
    window.end().await;
    Some((PACKETS, server.packets_received()))
}

/// Notes the figures that every throughput work has.
pub(crate) fn note(series: &mut Series, name: &str, logs: &[TaskLog], window: Window, sent: Sent) {
    let shares: Vec<u64> = logs.iter().map(|log| log.grants.len() as u64).collect();
    let total: u64 = shares.iter().sum();
    let mut waits = Latencies::new();
    for log in logs {
        for grant in &log.grants {
            waits.record(grant.wait_ns);
        }
        // A task that still waits at the end has waited at least until then.
        if let Some(since_ns) = log.waiting_since_ns.filter(|since| *since < window.end_ns) {
            waits.record(window.end_ns - since_ns);
        }
    }
    let ms = |quantile| waits.ns(quantile) / 1e6;
    series.push(name, RATE, total as f64 / window.seconds());
    if let Some((figure, sent)) = sent {
        series.push(name, figure, sent as f64 / total.max(1) as f64);
    }
    series.push(name, JAIN, jain(&shares));
    series.push(name, STARVED, shares.iter().filter(|share| **share == 0).count() as f64);
    series.push(name, WAIT_P50, ms(0.5));
    series.push(name, WAIT_P99, ms(0.99));
    series.push(name, WAIT_MAX, ms(1.0));
}

pub(crate) const RATE: &str = "acquisitions/s";
pub(crate) const COMMANDS: &str = "commands each";
pub(crate) const PACKETS: &str = "packets each";
/// The time of the process that takes and gives back, user and system.
pub(crate) const CPU: &str = "client CPU µs each";
pub(crate) const SERVER_CPU: &str = "server CPU µs each";
pub(crate) const JAIN: &str = "Jain, tasks";
pub(crate) const STARVED: &str = "tasks starved";
pub(crate) const WAIT_P50: &str = "wait p50 ms";
pub(crate) const WAIT_P99: &str = "wait p99 ms";
pub(crate) const WAIT_MAX: &str = "longest wait ms";

/// The most that a free key may cost this process, beside a lock with neither line nor tokens.
pub(crate) const CPU_TO_RSLOCK_MAX: f64 = 1.2;

/// The most that the server may spend on a free key, by what two scripts cost it that set and
/// delete.
pub(crate) const SERVER_CPU_TO_BARE_MAX: f64 = 1.5;
