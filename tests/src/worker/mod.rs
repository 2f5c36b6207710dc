//! A separate process that holds locks on command.
//!
//! Freezing or killing a holder needs a process to freeze or kill. The binary `worker` (see [`binary`],
//! `worker --help`) takes one command per line and answers each with one line of JSON;
//! [`Worker`] starts it, talks to it and sends it signals.
//!
//! ```ignore
//! let mut holder = Worker::spawn(env!("CARGO_BIN_EXE_worker"), &["--url", &server.url()]);
//! let grant = holder.ask("acquire order:42 1000").await;
//! holder.freeze();
//! // … its lease ends, another is granted …
//! holder.thaw();
//! assert!(!holder.ask("write").await.accepted());
//! ```
//!
//! `CARGO_BIN_EXE_worker` is set for the integration tests and benches of this package.

pub mod program;
mod reply;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::wait::{PATIENCE, within};
use crate::{process, stalls, watchdog};
pub use reply::Reply;

/// A running `worker`, killed when dropped.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::UnboundedReceiver<String>,
    watchdog: Option<Child>,
}

/// The program of workers, which cargo builds beside each test and binary of this package.
///
/// # Panics
///
/// If it is not there.
#[must_use]
pub fn binary() -> PathBuf {
    let own = std::env::current_exe().expect("a path of our own");
    let mut beside = own.ancestors().skip(1).take(2).map(|folder| folder.join("worker"));
    let found = beside.find(|path| path.is_file());
    found.expect("the program `worker`: cargo build -p tests --bin worker")
}

impl Worker {
    /// Starts `program` with `arguments`. Its standard error is the test's.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn spawn(program: impl AsRef<OsStr>, arguments: &[&str]) -> Self {
        watchdog::enter();
        let mut child = Command::new(program.as_ref())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.as_ref().display()));
        stalls::count(child.id());
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a piped stdout"));
        let (sender, lines) = mpsc::unbounded_channel();
        // A thread, so that the worker never blocks on a pipe that a busy test does not read.
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let watchdog = process::watch(child.id());
        Worker { child, stdin, lines, watchdog }
    }

    /// Sends one command without waiting for its answer.
    ///
    /// # Panics
    ///
    /// If the worker is gone.
    pub fn send(&mut self, command: &str) {
        let stdin = self.stdin.as_mut().expect("the worker's stdin is open");
        writeln!(stdin, "{command}").expect("the worker reads its commands");
    }

    /// Waits for the next answer.
    ///
    /// # Panics
    ///
    /// If none comes within [`PATIENCE`], or the worker is gone, or it is no [`Reply`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no answer is lost.
    pub async fn reply(&mut self) -> Reply {
        let line = within("an answer of the worker", self.lines.recv()).await;
        parse(&line.expect("the worker has ended"))
    }

    /// Waits for the next answer for at most `limit`; `None` if none came.
    ///
    /// # Panics
    ///
    /// If the worker is gone, or its answer is no [`Reply`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no answer is lost.
    pub async fn reply_within(&mut self, limit: Duration) -> Option<Reply> {
        let line = timeout(limit, self.lines.recv()).await.ok()?;
        Some(parse(&line.expect("the worker has ended")))
    }

    /// Sends one command and waits for its answer.
    ///
    /// # Panics
    ///
    /// As [`send`](Self::send) and [`reply`](Self::reply).
    ///
    /// # Cancel safety
    ///
    /// The command is sent; its answer stays to be read.
    pub async fn ask(&mut self, command: &str) -> Reply {
        self.send(command);
        self.reply().await
    }

    /// The worker's pid.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Freezes it (`SIGSTOP`).
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Wakes it (`SIGCONT`).
    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Asks it to end (`SIGTERM`): it shuts its client down, releases and exits with 0.
    pub fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Kills it (`SIGKILL`) and waits for its end.
    pub fn kill(&mut self) {
        // It goes first: once the worker is waited for, its pid may be another's.
        process::call_off(&mut self.watchdog);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// If it has not ended after [`PATIENCE`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn ended(&mut self) -> ExitStatus {
        let wait = async {
            loop {
                if let Some(status) = self.child.try_wait().expect("our own child") {
                    return status;
                }
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, wait).await.expect("the worker ends")
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a pid fits an i32");
        // Not yet waited for, so the pid is still this worker's.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

fn parse(line: &str) -> Reply {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{line:?} is no answer: {error}"))
}
