//! The server's process and the one that ends it if the test cannot.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running `redis-server`, killed on drop.
#[derive(Debug)]
pub(super) struct Process {
    server: Child,
    watchdog: Option<Child>,
}

impl Process {
    /// Starts `program` on the configuration file `config`.
    ///
    /// # Panics
    ///
    /// If the program is missing or cannot be started.
    pub(super) fn start(program: &OsStr, config: &Path) -> Self {
        let server = Command::new(program)
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match server {
            Ok(server) => {
                let watchdog = watch(server.id());
                Process { server, watchdog }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => panic!(
                "{} was not found: install the Debian package `redis-server` \
                 (apt-get install redis-server), or run ./tests/run",
                program.display()
            ),
            Err(error) => panic!("{} could not be started: {error}", program.display()),
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.server.id()
    }

    pub(super) fn signal(&self, signal: Signal) {
        // Not yet waited for, so the pid is still this server's even if it has ended.
        let _ = kill(pid(self.server.id()), signal);
    }

    /// True if the process has ended of itself.
    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.server.try_wait(), Ok(Some(_)) | Err(_))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watchdog goes first: once the server is waited for, its pid may be another's.
        if let Some(mut watchdog) = self.watchdog.take() {
            let _ = watchdog.kill();
            let _ = watchdog.wait();
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Starts a shell that kills `server` when this process ends without dropping its fixtures.
///
/// It reads a pipe that only this process writes to; the kernel closes it even after a `SIGKILL`.
fn watch(server: u32) -> Option<Child> {
    Command::new("/bin/sh")
        .args(["-c", r#"read -r _; kill -9 "$1""#, "watchdog", &server.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).expect("a pid fits an i32"))
}
