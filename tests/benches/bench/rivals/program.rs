//! Rivals in programs of their own: Go's `concurrency.Mutex` (`tests/interop/etcd`), and the crate
//! `distributed-lock` (`tests/interop/distributed_lock`), which needs another sqlx than ours.
//!
//! Such a program takes and gives back one key from some tasks. It says "ready", waits for "START END" in
//! Unix nanoseconds, and answers with the figures of the cycles between them.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use tests::clock::now_ns;

use crate::measure::{JAIN, RATE, STARVED, Sent, Window};
use crate::series::{Series, jain};

/// A program that is built.
pub(crate) struct Program(PathBuf);

/// The answer of one process.
#[derive(Debug, Deserialize)]
struct Figures {
    /// The grants of each task.
    grants: Vec<u64>,
    /// The median time of a cycle.
    p50_us: f64,
}

/// Processes with some tasks each, ready to take one key.
pub(crate) struct Crowd(Vec<Process>);

struct Process {
    child: Child,
    says: BufReader<ChildStdout>,
}

/// What a crowd did within a window.
pub(crate) struct Ran {
    /// The grants of each task.
    shares: Vec<u64>,
    /// The median time of a cycle, of the first process.
    pub(crate) p50_us: f64,
    window: Window,
}

impl Program {
    /// Go's client of etcd: the one that `./tests/run --all` built, or one that is built now.
    pub(crate) fn etcd_go() -> Self {
        if let Some(built) = std::env::var_os("ETCD_GO_CLIENT") {
            return Self(built.into());
        }
        let program = built_in("etcd").join("client");
        let mut go = Command::new("go");
        go.arg("-C").arg(source("etcd")).args(["build", "-o"]).arg(&program).arg(".");
        Self::built(
            go,
            program,
            "the works named etcd-… need Go and its modules, or `ETCD_GO_CLIENT`",
        )
    }

    pub(crate) fn distributed_lock() -> Self {
        let folder = built_in("distributed_lock");
        let program = folder.join("release/distributed-lock-rival");
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--quiet", "--release", "--locked", "--manifest-path"]);
        cargo.arg(source("distributed_lock").join("Cargo.toml")).arg("--target-dir").arg(folder);
        Self::built(cargo, program, "the works named postgres-… build the crate `distributed-lock`")
    }

    fn built(mut builds: Command, program: PathBuf, or_else: &str) -> Self {
        assert!(builds.status().is_ok_and(|status| status.success()), "{or_else}");
        Self(program)
    }

    /// Starts so many with these arguments and waits until all are ready.
    pub(crate) fn ready(&self, processes: usize, arguments: &[&str]) -> Crowd {
        let start = |_| {
            let mut command = Command::new(&self.0);
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().expect("a program that was built");
            let says = BufReader::new(child.stdout.take().expect("it is piped"));
            let mut process = Process { child, says };
            assert_eq!(process.line().trim(), "ready");
            process
        };
        Crowd((0..processes).map(start).collect())
    }
}

/// Where the bench keeps what it has built of it.
fn built_in(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("interop").join(name)
}

impl Crowd {
    /// Has all run in this window.
    pub(crate) async fn run(mut self, window: Window) -> Ran {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock");
        let ahead = |at_ns: u64| unix + Duration::from_nanos(at_ns.saturating_sub(now_ns()));
        let (start, end) = (ahead(window.start_ns), ahead(window.end_ns));
        for process in &mut self.0 {
            let input = process.child.stdin.as_mut().expect("it is piped");
            writeln!(input, "{} {}", start.as_nanos(), end.as_nanos()).expect("it listens");
        }
        let read = move || {
            let figures = |process: &mut Process| -> Figures {
                serde_json::from_str(&process.line()).expect("figures of a program")
            };
            self.0.iter_mut().map(figures).collect::<Vec<_>>()
        };
        let all = tokio::task::spawn_blocking(read).await.expect("figures");
        let shares = all.iter().flat_map(|of| of.grants.clone()).collect();
        Ran { shares, p50_us: all[0].p50_us, window }
    }
}

impl Ran {
    /// Notes how often and how fairly it was granted the key.
    pub(crate) fn note(&self, series: &mut Series, name: &str, sent: Sent) {
        let grants: u64 = self.shares.iter().sum();
        series.push(name, RATE, grants as f64 / self.window.seconds());
        if let Some((figure, sent)) = sent {
            series.push(name, figure, sent as f64 / grants.max(1) as f64);
        }
        series.push(name, JAIN, jain(&self.shares));
        let starved = self.shares.iter().filter(|share| **share == 0).count();
        series.push(name, STARVED, starved as f64);
    }
}

impl Process {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("a line of a program");
        line
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
