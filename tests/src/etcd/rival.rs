//! Clients of others: `etcdctl`, and the program in `tests/interop/etcd`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::server::EtcdServer;
use crate::process::missing;
use crate::wait::PATIENCE;

/// A process that holds or waits, and says so; killed when dropped.
#[derive(Debug)]
pub struct Rival {
    child: Child,
    said: Receiver<String>,
}

impl Rival {
    /// `etcdctl`, of Debian, with these arguments.
    ///
    /// # Panics
    ///
    /// If it is not installed.
    #[must_use]
    pub fn etcdctl(server: &EtcdServer, arguments: &[&str]) -> Self {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", server.addr()));
        Self::start(command.args(arguments))
    }

    /// The program in Go, with what it is to do, a prefix, a TTL in seconds and more. `None` where
    /// it was not built: `./tests/run --all` does so where Go is installed.
    #[must_use]
    pub fn go(server: &EtcdServer, what: &str, prefix: &str, more: &[&str]) -> Option<Self> {
        let program = std::env::var_os("ETCD_GO_CLIENT")?;
        let mut command = Command::new(program);
        command.args([what, &server.addr().to_string(), prefix]).args(more);
        Some(Self::start(&mut command))
    }

    fn start(command: &mut Command) -> Self {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => missing(&"etcdctl", "etcd-client"),
            _ => panic!("{command:?}: {error}"),
        });
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (say, said) = channel();
        thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| say.send(line))
        });
        Self { child, said }
    }

    /// The next line that it says.
    ///
    /// # Panics
    ///
    /// If none comes in time.
    #[must_use]
    pub fn says(&self) -> String {
        self.said.recv_timeout(PATIENCE).expect("a line of a rival")
    }

    /// Whether it has said nothing more for this long.
    #[must_use]
    pub fn is_silent(&self, time: Duration) -> bool {
        self.said.recv_timeout(time).is_err()
    }

    /// Tells it to let go: `etcdctl` by a signal, the program in Go by a line.
    pub fn lets_go(&mut self) {
        if let Some(input) = &mut self.child.stdin {
            // One that has ended needs no word.
            let _ = input.write_all(b"\n");
        }
        self.signal(Signal::SIGTERM);
    }

    /// Tells the program in Go to let go.
    pub fn is_told(&mut self) {
        let input = self.child.stdin.as_mut().expect("it is piped");
        input.write_all(b"\n").expect("it listens");
    }

    /// Kills it.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a pid"));
        let _ = kill(pid, signal);
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        self.kill();
    }
}
