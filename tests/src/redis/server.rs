//! Starting, stopping and freezing a server.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::options::{FIXTURE_PASSWORD, RedisOptions};
use crate::folder::Folder;
use crate::movable_clock::MovableClock;
use crate::port::{is_port_taken, on_a_free_port};
use crate::process::Process;

/// A `redis-server` on the loopback interface, stopped when dropped.
#[derive(Debug)]
pub struct RedisServer {
    process: Option<Process>,
    options: RedisOptions,
    port: u16,
    directory: Folder,
    pub(super) admin: Mutex<Option<Admin>>,
}

/// The fixture's own connection.
pub(super) struct Admin(pub(super) redis::Connection);

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Admin")
    }
}

impl RedisServer {
    /// Starts a server without persistence and waits until it answers.
    ///
    /// # Panics
    ///
    /// If `redis-server` is not installed, with the package's name, or does not answer in 10 s,
    /// with the end of its log.
    #[must_use]
    pub fn start() -> Self {
        Self::with(RedisOptions::new())
    }

    /// Starts a server with `options` and waits until it answers.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn with(options: RedisOptions) -> Self {
        let directory = Folder::new("redis");
        let mut server =
            RedisServer { process: None, options, port: 0, directory, admin: Mutex::new(None) };
        on_a_free_port("redis-server", |port| {
            server.port = port;
            server.launch()
        });
        server
    }

    /// The URL of the default user: `redis://127.0.0.1:<port>`, with the password if one is set.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.options.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}", self.port),
            None => format!("redis://127.0.0.1:{}", self.port),
        }
    }

    /// The URL for `user` and `password`.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@127.0.0.1:{}", self.port)
    }

    /// Where the server listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The unix socket, if [`RedisOptions::unix_socket`] asked for one.
    #[must_use]
    pub fn unix_socket(&self) -> Option<PathBuf> {
        self.options.unix_socket.then(|| self.directory.path().join("redis.sock"))
    }

    /// Where its files are.
    pub(super) fn folder(&self) -> &Path {
        self.directory.path()
    }

    /// The server's pid.
    ///
    /// # Panics
    ///
    /// If the server was killed.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server runs").id()
    }

    /// False once the server was killed, until it is started again.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// The server's log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("redis.log")).unwrap_or_default()
    }

    /// Freezes the server (`SIGSTOP`): connections stay open and nothing is answered.
    pub fn freeze(&self) {
        if let Some(process) = &self.process {
            process.signal(Signal::SIGSTOP);
        }
    }

    /// Wakes a frozen server (`SIGCONT`).
    pub fn thaw(&self) {
        if let Some(process) = &self.process {
            process.signal(Signal::SIGCONT);
        }
    }

    /// Kills the server (`SIGKILL`) and waits for its end. The port refuses connections then.
    pub fn kill(&mut self) {
        *self.admin.get_mut().expect("no fixture panicked") = None;
        self.process = None;
    }

    /// Kills the server if it runs, starts it on the same port and directory, and waits until it
    /// answers. Without persistence it comes back empty.
    ///
    /// # Panics
    ///
    /// If it does not answer within 10 s.
    pub fn restart(&mut self) {
        self.kill();
        let deadline = Instant::now() + Duration::from_secs(10);
        while let Err(log) = self.launch() {
            let again = is_port_taken(&log) && Instant::now() < deadline;
            assert!(again, "redis-server did not restart:\n{log}");
            sleep(Duration::from_millis(20));
        }
    }

    /// Starts the process and waits for its answer; the error is its log.
    fn launch(&mut self) -> Result<(), String> {
        let folder = self.directory.path();
        let config = folder.join("redis.conf");
        let _ = fs::remove_file(folder.join("redis.log"));
        fs::write(&config, self.options.config_file(self.port, folder)).expect("a writable folder");
        if let Some(acl) = self.options.acl_file() {
            fs::write(folder.join("users.acl"), acl).expect("a writable folder");
        }
        let mut command = Command::new(&self.options.binary);
        command.arg(&config);
        if self.options.movable_clock {
            MovableClock::new(folder).load(&mut command);
        }
        let mut process = Process::start(&mut command, "redis-server", &self.directory);
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            // The pid tells our server from one that took the port first.
            if self.answering_pid() == Some(process.id()) {
                self.process = Some(process);
                return Ok(());
            }
            if process.has_ended() {
                return Err(self.log());
            }
            assert!(
                Instant::now() < deadline,
                "redis-server does not answer on port {}:\n{}",
                self.port,
                self.log()
            );
            sleep(Duration::from_millis(3));
        }
    }

    fn answering_pid(&self) -> Option<u32> {
        let mut connection = self.connect().ok()?;
        let info: String = redis::cmd("INFO").arg("server").query(&mut connection).ok()?;
        let ping: Result<String, _> = redis::cmd("PING").query(&mut connection);
        let line = info.lines().find_map(|line| line.strip_prefix("process_id:"))?;
        ping.ok().and(line.trim().parse().ok())
    }

    /// A connection of the fixture's own, named `fixture`, bounded in time.
    pub(super) fn connect(&self) -> redis::RedisResult<redis::Connection> {
        let url = match &self.options.acl {
            Some(_) => self.url_as("fixture", FIXTURE_PASSWORD),
            None => self.url(),
        };
        let limit = Duration::from_secs(5);
        let mut connection = redis::Client::open(url)?.get_connection_with_timeout(limit)?;
        connection.set_read_timeout(Some(limit))?;
        connection.set_write_timeout(Some(limit))?;
        redis::cmd("CLIENT").arg("SETNAME").arg("fixture").exec(&mut connection)?;
        Ok(connection)
    }
}
