//! Works of several processes: the bench starts itself again.
//!
//! Parent and child speak as tests and the `worker` do: the child says that it is ready, the
//! parent says when to begin and when to end, the child answers with its figures. Grants go
//! through a file, since there are many.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tests::worker::{Reply, Worker};
use tokio::io::{AsyncBufReadExt, Lines, Stdin, stdin};

use crate::measure::{Grant, TaskLog, Window};
use crate::rivals::Contender;
use crate::works::{database, handoff, held, single};

/// The plan that a child follows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Plan {
    /// A task on each key, which may be the same one.
    Contend { url: String, contender: Contender, keys: Vec<String>, out: PathBuf },
    /// One task that holds the key for a moment, over and over.
    HandOff { url: String, contender: Contender, key: String, out: PathBuf },
    /// One task on these keys in turn, `block` cycles whenever the parent says so.
    Block { url: String, contender: Contender, keys: Vec<String>, block: usize },
    /// One key, held for good.
    Keep { url: String, contender: Contender, key: String },
    /// `keys` keys, held at once.
    Hold { url: String, keys: usize },
}

/// The child's side.
pub(crate) async fn run(plan: &str) {
    let plan: Plan = serde_json::from_str(plan).expect("a plan of the bench's own");
    let mut input = Input(tokio::io::BufReader::new(stdin()).lines());
    match plan {
        Plan::Contend { url, contender, keys, out } => {
            let rival = contender.connect(&url).await;
            let window = input.ready_for_window().await;
            let (logs, cpu_ns) = tokio::join!(rival.contend(keys, window), window.cpu_ns());
            write_logs(&out, &logs).expect("a writable folder");
            answer(&Reply { value: Some(json!(cpu_ns)), ..Reply::done() });
        }
        Plan::HandOff { url, contender, key, out } => {
            let rival = contender.connect(&url).await;
            let window = input.ready_for_window().await;
            let turns = handoff::take_turns(&rival, &key, window).await;
            write_numbers(&out, &turns).expect("a writable folder");
            answer(&Reply::done());
        }
        Plan::Block { url, contender, keys, block } => {
            let rival = contender.connect(&url).await;
            single::cycle_in_blocks(&rival, &keys, block, &mut input).await;
        }
        Plan::Keep { url, contender, key } => database::keep(contender, &url, &key).await,
        Plan::Hold { url, keys } => held::hold(&url, keys, &mut input).await,
    }
}

/// The lines of the parent.
pub(crate) struct Input(Lines<tokio::io::BufReader<Stdin>>);

impl Input {
    pub(crate) async fn line(&mut self) -> String {
        self.0.next_line().await.ok().flatten().expect("the bench still runs")
    }

    async fn ready_for_window(&mut self) -> Window {
        answer(&Reply::done());
        let line = self.line().await;
        let mut numbers = line.split(' ').map(|word| word.parse().expect("nanoseconds"));
        let mut next = || numbers.next().expect("two numbers");
        Window { start_ns: next(), end_ns: next() }
    }
}

pub(crate) fn answer(reply: &Reply) {
    println!("{}", json!(reply));
}

/// Starts the bench again as a child.
pub(crate) fn spawn(plan: &Plan) -> Worker {
    let own = std::env::current_exe().expect("the bench's own path");
    Worker::spawn(own, &["--child", &json!(plan).to_string()])
}

/// The parent's side: one child per plan, all in the same window.
pub(crate) struct Children(Vec<Worker>);

impl Children {
    /// Starts them and waits until all have connected.
    pub(crate) async fn start(plans: &[Plan]) -> Self {
        let mut children: Vec<Worker> = plans.iter().map(spawn).collect();
        for child in &mut children {
            child.reply().await;
        }
        Children(children)
    }

    /// Tells all of them when to run.
    pub(crate) fn go(&mut self, window: Window) {
        for child in &mut self.0 {
            child.send(&format!("{} {}", window.start_ns, window.end_ns));
        }
    }

    /// Waits for the answer of each.
    pub(crate) async fn ended(mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        for child in &mut self.0 {
            let limit = Duration::from_secs(60);
            replies.push(child.reply_within(limit).await.expect("a child that ends"));
        }
        replies
    }
}

/// For each task a count and whether it still waits, then its grants.
fn write_logs(path: &Path, logs: &[TaskLog]) -> std::io::Result<()> {
    let mut numbers = vec![logs.len() as u64];
    for log in logs {
        numbers.push(log.grants.len() as u64);
        numbers.push(log.waiting_since_ns.unwrap_or(u64::MAX));
        numbers.extend(log.grants.iter().flat_map(|grant| [grant.t_ns, grant.wait_ns]));
    }
    write_numbers(path, &numbers)
}

pub(crate) fn read_logs(path: &Path) -> Vec<TaskLog> {
    let mut numbers = read_numbers(path).into_iter();
    let mut next = || numbers.next().expect("a whole file");
    let tasks = next();
    let mut logs = Vec::new();
    for _ in 0..tasks {
        let (grants, since_ns) = (next(), next());
        let grants = (0..grants).map(|_| Grant { t_ns: next(), wait_ns: next() }).collect();
        logs.push(TaskLog { grants, waiting_since_ns: Some(since_ns).filter(|ns| *ns < u64::MAX) });
    }
    logs
}

fn write_numbers(path: &Path, numbers: &[u64]) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for number in numbers {
        file.write_all(&number.to_le_bytes())?;
    }
    file.flush()
}

pub(crate) fn read_numbers(path: &Path) -> Vec<u64> {
    let mut bytes = Vec::new();
    let file = File::open(path).expect("a child has written its file");
    BufReader::new(file).read_to_end(&mut bytes).expect("a readable file");
    let number = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
    bytes.chunks_exact(8).map(number).collect()
}
