//! A JVM, its lines, and what it complained of.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::program::{Program, unstarted};
use crate::process::{call_off, watch};
use crate::wait::within;

/// The lines that the program prints.
pub(super) type Output = Lines<BufReader<ChildStdout>>;

/// A running Java program, killed when dropped. It ends by itself when this process is gone and
/// its input with it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Only beside a frozen program, which cannot see the end of its input.
    watchdog: Option<std::process::Child>,
    input: mpsc::UnboundedSender<String>,
    stderr: Stderr,
}

impl Process {
    /// Starts a JVM with `flags` on the program with `arguments`.
    ///
    /// # Panics
    ///
    /// As [`Program::compiled`], or if the JVM cannot be started.
    pub(super) async fn start(flags: &[&str], arguments: &[&str]) -> (Self, Output) {
        let program = match spawn_blocking(Program::compiled).await {
            Ok(program) => program,
            // The reason is in the panic, not in the error that tells of it.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let stderr = tempfile::tempfile().expect("a temporary file");
        let mut child = Command::from(program.command(flags))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr.try_clone().expect("a second descriptor"))
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| unstarted("java", &error));
        let (input, lines) = mpsc::unbounded_channel();
        tokio::spawn(write(lines, child.stdin.take().expect("a piped stdin")));
        let stdout = child.stdout.take().expect("a piped stdout");
        let process = Process { child, watchdog: None, input, stderr: Stderr(Arc::new(stderr)) };
        (process, BufReader::new(stdout).lines())
    }

    /// Sends one line. One that a program which has ended does not read is lost.
    pub(super) fn send(&self, line: String) {
        let _ = self.input.send(line + "\n");
    }

    pub(super) fn stderr(&self) -> &Stderr {
        &self.stderr
    }

    /// The pid; `None` once the end of the program was seen.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Stops it (`SIGSTOP`).
    pub(super) fn freeze(&mut self) {
        self.watchdog = self.pid().and_then(watch);
        self.signal(Signal::SIGSTOP);
    }

    /// Continues it (`SIGCONT`).
    pub(super) fn thaw(&mut self) {
        call_off(&mut self.watchdog);
        self.signal(Signal::SIGCONT);
    }

    /// Kills it (`SIGKILL`) and waits for its end.
    pub(super) async fn kill(&mut self) {
        // First, here and below: once the program is waited for, its pid may be another's.
        call_off(&mut self.watchdog);
        let _ = self.child.kill().await;
    }

    /// Waits for its end, at most for [`PATIENCE`](crate::wait::PATIENCE).
    pub(super) async fn ended(&mut self) -> ExitStatus {
        call_off(&mut self.watchdog);
        within("the end of the Java program", self.child.wait()).await.expect("our own child")
    }

    fn signal(&self, signal: Signal) {
        // Not yet waited for, so the pid is still this program's.
        if let Some(pid) = self.pid() {
            let _ = kill(Pid::from_raw(i32::try_from(pid).expect("a pid fits an i32")), signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        call_off(&mut self.watchdog);
    }
}

/// The standard error of a program; there still when the program is gone.
#[derive(Clone, Debug)]
pub(super) struct Stderr(Arc<File>);

impl Stderr {
    /// How much of it a panic shows, in bytes.
    const SHOWN_BYTES_MAX: u64 = 8 * 1024;

    /// Ends the test with `what` and the end of the standard error.
    pub(super) fn panic(&self, what: &str) -> ! {
        panic!("{what}; the Java program's standard error ends with:\n{}", self.end())
    }

    fn end(&self) -> String {
        let written = self.0.metadata().map_or(0, |file| file.len());
        let from = written.saturating_sub(Self::SHOWN_BYTES_MAX);
        let mut end = vec![0; usize::try_from(written - from).unwrap_or_default()];
        // At a position: reading on would move the place where the program writes.
        match self.0.read_exact_at(&mut end, from) {
            Ok(()) => String::from_utf8_lossy(&end).into_owned(),
            Err(error) => format!("(unreadable: {error})"),
        }
    }
}

async fn write(mut lines: mpsc::UnboundedReceiver<String>, mut stdin: ChildStdin) {
    while let Some(line) = lines.recv().await {
        if stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}
