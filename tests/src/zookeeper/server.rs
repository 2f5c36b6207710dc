//! Starting, stopping and pausing a server.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::observe::Asked;
use super::options::ZooKeeperOptions;
use super::words::field;
use crate::port::free_port;
use crate::process::{Process, missing};

/// The Debian package that brings the classes, and a Java to run them.
const PACKAGE: &str = "zookeeper";

/// How long a start may take: 30 s, for a machine that is busy with other JVMs.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A ZooKeeper server on the loopback interface, stopped when dropped.
#[derive(Debug)]
pub struct ZooKeeperServer {
    process: Option<Process>,
    options: ZooKeeperOptions,
    port: u16,
    directory: TempDir,
    pub(super) asked: Mutex<Asked>,
}

impl ZooKeeperServer {
    /// Starts a server with the default options and waits until it serves.
    ///
    /// # Panics
    ///
    /// If ZooKeeper or Java is not installed, with the package's name, or if it does not serve
    /// in 30 s, with the end of its log.
    #[must_use]
    pub fn start() -> Self {
        Self::with(ZooKeeperOptions::new())
    }

    /// Starts a server with `options` and waits until it serves.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn with(options: ZooKeeperOptions) -> Self {
        let mut server = Self::unstarted(options);
        // Between the choice of a port and the server's bind another process may take it.
        for _ in 0..20 {
            server.port = free_port();
            match server.launch() {
                Ok(()) => return server,
                Err(log) if is_port_taken(&log) => {}
                Err(log) => panic!("ZooKeeper did not start:\n{log}"),
            }
        }
        panic!("ZooKeeper found no free port in 20 tries");
    }

    fn unstarted(options: ZooKeeperOptions) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("lock-zookeeper-")
            .tempdir()
            .expect("a temporary folder");
        let asked = Mutex::default();
        ZooKeeperServer { process: None, options, port: 0, directory, asked }
    }

    /// `zookeeper://127.0.0.1:<port>`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("zookeeper://{}", self.addr())
    }

    /// `127.0.0.1:<port>`, as ZooKeeper's own clients take it.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.addr().to_string()
    }

    /// Where the server listens for clients.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The TCP port for clients.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The server's pid.
    ///
    /// # Panics
    ///
    /// If the server was stopped or killed.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server runs").id()
    }

    /// What the server has logged since its last start.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Pauses the server (`SIGSTOP`): connections stay open and nothing is answered.
    pub fn pause(&self) {
        if let Some(process) = &self.process {
            process.signal(Signal::SIGSTOP);
        }
    }

    /// Lets a paused server go on (`SIGCONT`). Sessions that were not heard of for too long by
    /// its clock end then, unless their clients are heard first.
    pub fn resume(&self) {
        if let Some(process) = &self.process {
            process.signal(Signal::SIGCONT);
        }
    }

    /// Kills the server (`SIGKILL`) and waits for its end. The port refuses connections then.
    pub fn kill(&mut self) {
        self.forget_session();
        self.process = None;
    }

    /// Ends the server (`SIGTERM`) and waits for its end; kills it after 5 s.
    pub fn stop(&mut self) {
        self.forget_session();
        if let Some(process) = self.process.take() {
            process.end(Duration::from_secs(5));
        }
    }

    /// Kills the server if it runs, starts it on the same port and data, and waits until it
    /// serves. Sessions live on, each with its whole timeout.
    ///
    /// # Panics
    ///
    /// If it does not serve within 30 s.
    pub fn restart(&mut self) {
        self.kill();
        let deadline = Instant::now() + START_LIMIT;
        while let Err(log) = self.launch() {
            let again = is_port_taken(&log) && Instant::now() < deadline;
            assert!(again, "ZooKeeper did not restart:\n{log}");
            sleep(Duration::from_millis(20));
        }
    }

    /// True if the server serves clients: it stands alone, or belongs to a quorum.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        // The folder tells our server from one that took the port first.
        let folder = self.folder().display().to_string();
        let ours = |config: &str| {
            field(config, "dataDir", '=').is_some_and(|data| data.starts_with(&folder))
        };
        self.try_word("conf").is_ok_and(|config| ours(&config))
            && self.try_word("srvr").is_ok_and(|answer| field(&answer, "Mode", ':').is_some())
    }

    /// Starts the process and waits until it serves; the error is its log.
    fn launch(&mut self) -> Result<(), String> {
        self.spawn();
        let deadline = Instant::now() + START_LIMIT;
        while !self.is_serving() {
            if self.process.as_mut().is_none_or(Process::has_ended) {
                return Err(self.end_of_log());
            }
            assert!(
                Instant::now() < deadline,
                "ZooKeeper does not serve on port {}:\n{}",
                self.port,
                self.end_of_log()
            );
            sleep(Duration::from_millis(5));
        }
        self.reset_stats();
        Ok(())
    }

    /// Starts the counters of `mntr` and [`packets_received`](Self::packets_received) at zero.
    pub fn reset_stats(&self) {
        let _ = (self.word("crst"), self.word("srst"));
        self.asked.lock().expect("no fixture panicked").words = 0;
    }

    /// Starts the process.
    fn spawn(&mut self) {
        let folder = self.folder();
        let config = folder.join("zoo.cfg");
        for jar in self.options.class_path() {
            if !jar.exists() {
                missing(&jar.display(), PACKAGE);
            }
        }
        let _ = fs::remove_file(self.log_file());
        fs::write(&config, self.options.config_file(self.port, folder)).expect("a writable folder");
        let mut command = self.options.command(&config, &self.log_file());
        self.process = Some(Process::start(&mut command, PACKAGE));
    }

    /// Gives the fixture's session up: what it waits for will not come.
    fn forget_session(&mut self) {
        self.asked.get_mut().expect("no fixture panicked").admin = None;
    }

    pub(super) fn folder(&self) -> &Path {
        self.directory.path()
    }

    fn log_file(&self) -> PathBuf {
        self.folder().join("zookeeper.log")
    }

    fn end_of_log(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

fn is_port_taken(log: &str) -> bool {
    log.contains("Address already in use")
}
