//! A server's process and the one that ends it if the test cannot.

use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::folder::Folder;
use crate::{stalls, watchdog};

/// A running server, killed on drop.
#[derive(Debug)]
pub(crate) struct Process {
    server: Child,
    watchdog: Option<Child>,
}

impl Process {
    /// Starts `command` without standard streams, as a process of its `folder`.
    ///
    /// # Panics
    ///
    /// If the program is missing, with the Debian `package` to install, or cannot be started.
    pub(crate) fn start(command: &mut Command, package: &str, folder: &Folder) -> Self {
        Self::of(folder.own(command), package)
    }

    /// The same without a folder.
    pub(crate) fn beside(command: &mut Command, package: &str) -> Self {
        Self::of(command, package)
    }

    fn of(command: &mut Command, package: &str) -> Self {
        watchdog::enter();
        let server =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let program = command.get_program().display();
        match server {
            Ok(server) => {
                stalls::count(server.id());
                let watchdog = watch(server.id());
                Process { server, watchdog }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => missing(&program, package),
            Err(error) => panic!("{program} could not be started: {error}"),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.server.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // Not yet waited for, so the pid is still this server's even if it has ended.
        signal_all(&[pid(self.server.id())], signal);
    }

    /// True if the process has ended of itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.server.try_wait(), Ok(Some(_)) | Err(_))
    }

    /// Asks the process to end (`SIGTERM`) and waits, at most for `limit`.
    pub(crate) fn end(mut self, limit: Duration) {
        self.signal(Signal::SIGTERM);
        let deadline = Instant::now() + limit;
        while !self.has_ended() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watchdog goes first: once the server is waited for, its pid may be another's.
        call_off(&mut self.watchdog);
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Signals processes. Those that are stopped stand still when this returns: a request may else be
/// answered a moment later.
pub(crate) fn signal_all(pids: &[Pid], signal: Signal) {
    for pid in pids {
        let _ = kill(*pid, signal);
    }
    let until = Instant::now() + Duration::from_secs(1);
    let runs = |pid: &Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|fields| fields.starts_with(['R', 'S', 'D']))
    };
    while signal == Signal::SIGSTOP && pids.iter().any(runs) && Instant::now() < until {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Fails a test whose server is not installed.
pub(crate) fn missing(what: &impl std::fmt::Display, package: &str) -> ! {
    panic!(
        "{what} was not found: install the Debian package `{package}` \
         (apt-get install {package}), or run ./tests/run"
    )
}

/// Starts a shell that kills `process` when this process ends without dropping its fixtures, as it
/// does with those that are static.
pub(crate) fn watch(process: u32) -> Option<Child> {
    when_alone(r#"kill -9 "$1""#, &[&process.to_string()])
}

/// Starts a shell that runs `script` when this process ends without [calling it off](call_off).
///
/// It reads a pipe that only this process writes to; the kernel closes it even after a `SIGKILL`.
pub(crate) fn when_alone(script: &str, arguments: &[&str]) -> Option<Child> {
    Command::new("/bin/sh")
        .args(["-c", &format!("read -r _; {script}"), "watchdog"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Whoever interrupts this process at a terminal leaves the watchdog alone.
        .process_group(0)
        .spawn()
        .ok()
}

/// Ends what [`when_alone`] started.
pub(crate) fn call_off(watchdog: &mut Option<Child>) {
    if let Some(mut watchdog) = watchdog.take() {
        let _ = watchdog.kill();
        let _ = watchdog.wait();
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).expect("a pid fits an i32"))
}
