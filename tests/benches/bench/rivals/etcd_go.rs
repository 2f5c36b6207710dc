//! Go's `concurrency.Mutex`, in the program of `tests/interop/etcd`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use tests::clock::now_ns;
use tests::etcd::EtcdCluster;

use crate::measure::Window;

/// The answer of one process.
#[derive(Debug, Deserialize)]
pub(crate) struct Figures {
    /// The grants of each goroutine.
    pub(crate) grants: Vec<u64>,
    /// The median time of a cycle.
    pub(crate) p50_us: f64,
}

/// Processes with some goroutines each, ready to take one key.
pub(crate) struct EtcdGo(Vec<Process>);

struct Process {
    child: Child,
    says: BufReader<ChildStdout>,
}

/// The program: the one that `./tests/run --all` built, or one that is built now.
pub(crate) fn program(folder: &Path) -> PathBuf {
    if let Some(built) = std::env::var_os("ETCD_GO_CLIENT") {
        return built.into();
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/etcd");
    let program = folder.join("client");
    let mut command = Command::new("go");
    command.arg("-C").arg(source).args(["build", "-o"]).arg(&program).arg(".");
    let built = command.status().is_ok_and(|status| status.success());
    assert!(built, "the works named etcd-… need Go and its modules, or `ETCD_GO_CLIENT`");
    program
}

impl EtcdGo {
    /// Starts them and waits until all have their sessions.
    pub(crate) fn ready(
        program: &Path,
        cluster: &EtcdCluster,
        key: &str,
        processes: usize,
        tasks: usize,
    ) -> Self {
        let url = cluster.url();
        let hosts = url.strip_prefix("etcd://").expect("a URL of the fixture");
        let start = |_| {
            let mut command = Command::new(program);
            command.args(["bench", hosts, key, "10"]).arg(tasks.to_string());
            let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut child = spawned.expect("the client in Go");
            let says = BufReader::new(child.stdout.take().expect("it is piped"));
            let mut process = Process { child, says };
            assert_eq!(process.line().trim(), "ready");
            process
        };
        Self((0..processes).map(start).collect())
    }

    /// Has all run in this window.
    pub(crate) async fn run(mut self, window: Window) -> Vec<Figures> {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock");
        let ahead = |at_ns: u64| unix + Duration::from_nanos(at_ns.saturating_sub(now_ns()));
        let (start, end) = (ahead(window.start_ns), ahead(window.end_ns));
        for process in &mut self.0 {
            let input = process.child.stdin.as_mut().expect("it is piped");
            writeln!(input, "{} {}", start.as_nanos(), end.as_nanos()).expect("it listens");
        }
        let read = move || {
            let read = |process: &mut Process| {
                serde_json::from_str(&process.line()).expect("figures of the client in Go")
            };
            self.0.iter_mut().map(read).collect()
        };
        tokio::task::spawn_blocking(read).await.expect("figures")
    }
}

impl Process {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("a line of the client in Go");
        line
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
