//! Starting, stopping and pausing a server.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::launch::{START_LIMIT, Seat};
use super::observe::{Asked, OwnSessions};
use super::options::ZooKeeperOptions;
use crate::folder::Folder;
use crate::port::{is_port_taken, on_a_free_port};
use crate::process::Process;

/// A ZooKeeper server on the loopback interface, stopped when dropped.
#[derive(Debug)]
pub struct ZooKeeperServer {
    pub(super) process: Option<Process>,
    pub(super) options: ZooKeeperOptions,
    pub(super) port: u16,
    pub(super) directory: Folder,
    pub(super) seat: Option<Seat>,
    /// False from a start until the counters are set to zero, which a server does only once it
    /// serves.
    pub(super) counts: bool,
    pub(super) asked: Mutex<Asked>,
    pub(super) own_sessions: OwnSessions,
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
        let mut server = Self::unstarted(options, 0, None);
        on_a_free_port("ZooKeeper", |port| {
            server.port = port;
            server.launch()
        });
        server
    }

    /// A server that has its folder, and no process yet.
    pub(super) fn unstarted(options: ZooKeeperOptions, port: u16, seat: Option<Seat>) -> Self {
        let directory = Folder::new("zookeeper");
        let (asked, own_sessions) = (Mutex::default(), OwnSessions::default());
        ZooKeeperServer {
            process: None,
            options,
            port,
            directory,
            seat,
            counts: false,
            asked,
            own_sessions,
        }
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

    /// The server's log since its last start.
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

    /// The same on a data directory that is empty: nothing is left of what it had, and it knows
    /// no session.
    ///
    /// # Panics
    ///
    /// If it does not serve within 30 s, or its data cannot be removed.
    pub fn restart_empty(&mut self) {
        self.kill();
        std::fs::remove_dir_all(self.folder().join("version-2")).expect("its data");
        self.restart();
    }

    /// Gives the fixture's session up: what it waits for will not come.
    fn forget_session(&mut self) {
        self.asked.get_mut().expect("no fixture panicked").admin = None;
    }

    pub(super) fn folder(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn log_file(&self) -> PathBuf {
        self.folder().join("zookeeper.log")
    }
}
