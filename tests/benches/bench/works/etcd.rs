//! Works on three members of etcd, beside Go's `concurrency.Mutex` on the same members.
//!
//! A goroutine of Go's has a session of its own: two of one session have one place in the line, and
//! both are let in.

use std::future::ready;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tests::clock::now_ns;
use tests::etcd::{EtcdCluster, EtcdServer};

use super::processes::Team;
use crate::arguments::Arguments;
use crate::measure::{JAIN, RATE, Sent, Window, in_process};
use crate::report::{Target, Work};
use crate::rivals::Contender::{Ours, OursStrict};
use crate::rivals::program::Program;
use crate::series::{Latencies, Series};

const GO: &str = "Go's Mutex";
const P50: &str = "cycle p50 µs";
/// Messages that the members were sent by clients.
const REQUESTS: &str = "requests each";

/// How often each is measured within a repeat.
const ROUNDS: usize = 3;

const TASKS: usize = 64;

/// Three members, and the program in Go.
struct Ground {
    cluster: EtcdCluster,
    go: Program,
}

impl Ground {
    fn start() -> Self {
        let go = Program::etcd_go();
        Self { cluster: EtcdCluster::start(3), go }
    }

    /// Each work has a path of its own.
    fn url(&self) -> String {
        format!("{}/bench", self.cluster.url())
    }

    /// Go's run on its own key, and its figures.
    async fn go(
        &self,
        series: &mut Series,
        key: &str,
        (processes, tasks): (usize, usize),
        span: Duration,
    ) {
        let key = format!("bench/{key}");
        let url = self.cluster.url();
        let hosts = url.strip_prefix("etcd://").expect("a URL of the fixture");
        let tasks = tasks.to_string();
        let crowd = self.go.ready(processes, &["bench", hosts, &key, "10", &tasks]);
        let window = Window::soon(span);
        let (ran, sent) = tokio::join!(crowd.run(window), self.sent_within(window));
        ran.note(series, GO, sent);
        series.push(GO, P50, ran.p50_us);
    }

    async fn sent_within(&self, window: Window) -> Sent {
        window.start().await;
        let before = self.messages();
        window.end().await;
        Some((REQUESTS, self.messages() - before))
    }

    fn messages(&self) -> u64 {
        (0..self.cluster.len()).map(|at| messages(self.cluster.member(at))).sum()
    }
}

/// The number of messages that clients have sent to this member, by its own count.
fn messages(member: &EtcdServer) -> u64 {
    let mut stream = TcpStream::connect(member.addr()).expect("a member");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("a member that reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("what it has counted");
    let counts = text.lines().filter(|line| {
        line.starts_with("grpc_server_msg_received_total{") && line.contains("etcdserverpb.")
    });
    let count = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
    counts.filter_map(count).sum::<f64>() as u64
}

/// One task, a free key.
pub(crate) async fn single(arguments: &Arguments) -> Work {
    let ground = Ground::start();
    let mut series = Series::default();
    let span = arguments.span(Duration::from_millis(1_500));
    for repeat in 0..arguments.repeats() {
        let mut rounds = Series::default();
        for round in 0..ROUNDS {
            alone(&ground, &mut rounds, format!("single-{repeat}-{round}"), span).await;
            ground.go(&mut rounds, &format!("single-go-{repeat}-{round}"), (1, 1), span).await;
        }
        series.push_medians(&rounds);
    }
    let ours = Ours.name();
    let targets = vec![
        Target::at_most("p50 ÷ Go's Mutex", series.ratio(ours, GO, P50).median, 1.0),
        // Each counts its keepalives in.
        Target::at_most(
            "requests per acquisition, worst repeat",
            series.spread(ours, REQUESTS).max,
            2.1,
        ),
    ];
    Work {
        name: "etcd-single",
        title: "etcd, three members, one task, free key, acquire + release".to_owned(),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: Vec::new(),
    }
}

/// Ours takes and gives back, from a task as services do.
async fn alone(ground: &Ground, series: &mut Series, key: String, span: Duration) {
    let rival = Ours.connect(&ground.url()).await;
    let window = Window::soon(span);
    let cycles = tokio::spawn(async move {
        let mut latencies = Latencies::new();
        loop {
            let asked_ns = now_ns();
            rival.cycle(&key, || ready(())).await;
            let end_ns = now_ns();
            if end_ns >= window.end_ns {
                return latencies;
            }
            if asked_ns >= window.start_ns {
                latencies.record(end_ns - asked_ns);
            }
        }
    });
    let sent = ground.sent_within(window).await;
    let latencies = cycles.await.expect("a run that does not panic");
    let (name, count) = (Ours.name(), latencies.count() as f64);
    series.push(name, RATE, count / window.seconds());
    series.push(name, P50, latencies.ns(0.5) / 1e3);
    if let Some((figure, sent)) = sent {
        series.push(name, figure, sent as f64 / count.max(1.0));
    }
}

/// One hot key, one process.
pub(crate) async fn hot_64(arguments: &Arguments) -> Work {
    let ground = Ground::start();
    let mut series = Series::default();
    let span = arguments.span(Duration::from_millis(2_500));
    for repeat in 0..arguments.repeats() {
        let mut rounds = Series::default();
        for round in 0..ROUNDS {
            let keys = vec![format!("hot-{repeat}-{round}"); TASKS];
            let sent = |window| ground.sent_within(window);
            in_process(&mut rounds, &ground.url(), Ours, keys, span, sent).await;
            ground.go(&mut rounds, &format!("hot-go-{repeat}-{round}"), (1, TASKS), span).await;
        }
        series.push_medians(&rounds);
    }
    let ours = Ours.name();
    let targets = vec![
        Target::at_least("rate ÷ Go's Mutex", series.ratio(ours, GO, RATE).median, 50.0),
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.99),
        Target::at_most(
            "requests per acquisition, worst repeat",
            series.spread(ours, REQUESTS).max,
            0.05,
        ),
    ];
    Work {
        name: "etcd-hot-64",
        title: "etcd, three members, one hot key, one process, 64 tasks (Go: goroutines)"
            .to_owned(),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: Vec::new(),
    }
}

/// One hot key, several processes, in the order in which they came.
pub(crate) async fn strict(arguments: &Arguments) -> Work {
    const PROCESSES: usize = 4;
    const TASKS: usize = 16;
    let ground = Ground::start();
    let mut series = Series::default();
    let span = arguments.span(Duration::from_secs(3));
    for repeat in 0..arguments.repeats() {
        let mut rounds = Series::default();
        // Before and after Go, so that a change of the machine's pace meets both.
        for (run, contender) in [OursStrict, OursStrict, Ours].into_iter().enumerate() {
            if run == 1 {
                let key = format!("strict-go-{repeat}");
                ground.go(&mut rounds, &key, (PROCESSES, TASKS), span).await;
            }
            let keys = vec![format!("strict-{repeat}-{run}"); TASKS];
            let team = Team { contender, processes: PROCESSES, keys };
            let sent = |window| ground.sent_within(window);
            team.run_and_note(&mut rounds, &ground.url(), span, sent).await;
        }
        series.push_medians(&rounds);
    }
    let ours = OursStrict.name();
    let targets = vec![
        Target::at_least("rate ÷ Go's Mutex", series.ratio(ours, GO, RATE).median, 1.2),
        Target::at_least("Jain over tasks, worst repeat", series.spread(ours, JAIN).min, 0.99),
        Target::at_most(
            "requests per acquisition ÷ Go's",
            series.ratio(ours, GO, REQUESTS).median,
            1.05,
        ),
    ];
    Work {
        name: "etcd-strict",
        title: "etcd, three members, one hot key, 4 processes × 16 tasks (Go: goroutines)"
            .to_owned(),
        compared: vec![(ours, RATE)],
        series,
        targets,
        notes: Vec::new(),
    }
}
