//! Starting, stopping and freezing a server.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use sqlx::Row;

use crate::admin::Admin;
use crate::certificates::certificates;
use crate::folder::Folder;
use crate::movable_clock::MovableClock;
use crate::other_user::OtherUser;
use crate::port::on_a_free_port;
use crate::process::{Process, missing};

/// The Debian package that brings the server, and the user that it makes.
const PACKAGE: &str = "mariadb-server";
const USER: OtherUser = OtherUser("mysql");

/// Not in everybody's search path.
const PROGRAM: &str = "/usr/sbin/mariadbd";

/// The user who may do everything there, and everybody's password.
pub(super) const OWNER: &str = "owner";
pub(super) const PASSWORD: &str = "secret";

const START_LIMIT: Duration = Duration::from_secs(20);

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct MariaDbOptions {
    settings: Vec<String>,
    movable_clock: bool,
    tls: bool,
}

impl MariaDbOptions {
    /// The defaults of the fixture.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With an option of the server's command line.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push(format!("--{name}={value}"));
        self
    }

    /// With TLS for those who ask for it; [`MariaDbServer::ca`] vouches for the server.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// With a wall clock that [`MariaDbServer::move_clock`] moves.
    #[must_use]
    pub fn movable_clock(mut self) -> Self {
        self.movable_clock = true;
        self
    }
}

/// A MariaDB server on the loopback interface, stopped when dropped. Everybody's password is
/// `secret`, and the database is `shop`.
#[derive(Debug)]
pub struct MariaDbServer {
    process: Option<Process>,
    options: MariaDbOptions,
    port: u16,
    clock: Option<MovableClock>,
    folder: Folder,
    admin: Admin<sqlx::MySql>,
}

impl MariaDbServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it is not installed, with the package's name, or does not answer in 20 s, with its log.
    #[must_use]
    pub fn start() -> Self {
        Self::with(MariaDbOptions::new())
    }

    /// The same with `options`.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn with(options: MariaDbOptions) -> Self {
        let folder = Folder::new("mariadb");
        let clock = options.movable_clock.then(|| MovableClock::new(folder.path()));
        let admin = Admin::new("mariadb-admin");
        let mut server = Self { process: None, options, port: 0, clock, folder, admin };
        server.init();
        on_a_free_port("MariaDB", |port| {
            server.port = port;
            server.launch()
        });
        server
    }

    /// A server whose replicas can follow it.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_primary() -> Self {
        Self::with(MariaDbOptions::new().setting("log-bin", "bin").setting("server-id", "1"))
    }

    /// A server that follows this one, which it reaches on this port, and is not promoted yet. Started
    /// again it does not go on to follow.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn replica_over(&self, port: u16) -> Self {
        let options = self.options.clone().setting("server-id", "2").setting("read-only", "1");
        let replica = Self::with(options.setting("skip-slave-start", "1"));
        replica.sql(format!(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, \
             MASTER_USER = '{OWNER}', MASTER_PASSWORD = '{PASSWORD}'"
        ));
        replica.sql("START SLAVE");
        replica
    }

    /// Has a replica take writes.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn promote(&self) {
        self.sql("SET GLOBAL read_only = 0");
    }

    /// Has this server take over a port, on which another one was until now.
    ///
    /// # Panics
    ///
    /// As [`restart`](Self::restart).
    pub fn move_to(&mut self, port: u16) {
        self.kill();
        self.port = port;
        self.restart();
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

    /// The URL of the owner, whose tables are made if they are missing.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}?create=true", self.url_as(OWNER))
    }

    /// The URL of this user, without parameters.
    #[must_use]
    pub fn url_as(&self, user: &str) -> String {
        self.url_over(user, self.addr())
    }

    /// The same over this address, as that of a proxy.
    #[must_use]
    pub fn url_over(&self, user: &str, addr: SocketAddr) -> String {
        format!("mysql://{user}:{PASSWORD}@{addr}/shop")
    }

    /// The certificate that vouches for the server, where it has [`tls`](MariaDbOptions::tls).
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub(super) fn admin(&self) -> &Admin<sqlx::MySql> {
        &self.admin
    }

    /// The server's log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Moves the server's wall clock by so many milliseconds from where it is now.
    ///
    /// # Panics
    ///
    /// If its clock is not movable.
    pub fn move_clock(&self, by_ms: i64) {
        self.clock.as_ref().expect("a movable clock").move_by(by_ms);
    }

    /// Freezes the server (`SIGSTOP`): connections stay open, and nothing is answered.
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

    /// Kills the server (`SIGKILL`).
    pub fn kill(&mut self) {
        self.admin.forget();
        drop(self.process.take());
    }

    /// Kills the server if it runs, starts it on the same port and folder, and waits until it
    /// answers.
    ///
    /// # Panics
    ///
    /// If it does not answer in time.
    pub fn restart(&mut self) {
        self.kill();
        let deadline = Instant::now() + START_LIMIT;
        while let Err(log) = self.launch() {
            // A killed server may take a moment to be gone.
            assert!(Instant::now() < deadline, "MariaDB did not restart:\n{log}");
            sleep(Duration::from_millis(20));
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// For temporary tables. A server that starts removes those that it finds, and takes those of
    /// another one for its own.
    fn scratch(&self) -> PathBuf {
        self.folder.path().join("scratch")
    }

    fn log_file(&self) -> PathBuf {
        self.data().join("server.log")
    }

    /// Makes the data folder, and what is run before anybody is served.
    fn init(&self) {
        USER.let_in(self.folder.path());
        let data = self.data();
        for folder in [&data, &self.scratch()] {
            fs::create_dir(folder).expect("a writable folder");
            USER.give(folder, 0o700);
        }
        let installer = Path::new("/usr/bin/mariadb-install-db");
        if !installer.exists() || !Path::new(PROGRAM).exists() {
            missing(&PROGRAM, PACKAGE);
        }
        let mut command = USER.command(installer);
        command.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
        command.env("TMPDIR", self.scratch());
        command.args(["--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=8M"]);
        self.folder.own(&mut command);
        let output = command.stdin(Stdio::null()).output().expect("mariadb-install-db");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "mariadb-install-db failed:\n{said}");
        let script = self.folder.path().join("init.sql");
        let text = format!(
            "CREATE DATABASE IF NOT EXISTS shop;\n\
             CREATE USER IF NOT EXISTS '{OWNER}'@'%' IDENTIFIED BY '{PASSWORD}';\n\
             GRANT ALL ON *.* TO '{OWNER}'@'%' WITH GRANT OPTION;\n"
        );
        fs::write(&script, text).expect("a writable folder");
        USER.give(&script, 0o600);
        if self.options.tls {
            let [_, certificate, key] = certificates(self.folder.path());
            USER.give(&certificate, 0o600);
            USER.give(&key, 0o600);
        }
    }

    fn command(&self) -> Command {
        let (folder, data) = (self.folder.path().display(), self.data().display().to_string());
        // A shell, as the server's words are to be in a file.
        let mut command = USER.command(Path::new("sh"));
        command.args(["-c", "log=$1; shift; exec \"$0\" \"$@\" >>\"$log\" 2>&1"]);
        command.arg(PROGRAM).arg(self.log_file()).arg("--no-defaults");
        command.arg(format!("--datadir={data}")).arg(format!("--socket={data}/socket"));
        command.arg(format!("--pid-file={data}/pid")).arg(format!("--port={}", self.port));
        command.arg(format!("--init-file={folder}/init.sql"));
        command.args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--max-connections=400"]);
        command.args(["--innodb-flush-log-at-trx-commit=2", "--innodb-doublewrite=0"]);
        command.args(["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M"]);
        command.args(["--innodb-use-native-aio=0", "--innodb-fast-shutdown=2"]);
        if self.options.tls {
            command.arg(format!("--ssl-ca={folder}/ca.pem"));
            command.arg(format!("--ssl-cert={folder}/server.pem"));
            command.arg(format!("--ssl-key={folder}/server.key"));
        }
        command.args(&self.options.settings).current_dir("/").env("TMPDIR", self.scratch());
        if let Some(clock) = &self.clock {
            clock.load(&mut command);
        }
        command
    }

    /// Starts the process and waits for its answer; the error is its log.
    fn launch(&mut self) -> Result<(), String> {
        let _ = fs::remove_file(self.log_file());
        let data = self.data();
        let mut process = Process::start(&mut self.command(), PACKAGE, &self.folder);
        let deadline = Instant::now() + START_LIMIT;
        loop {
            // The folder tells our server from one that took the port first.
            let ours = self.try_sql("SELECT @@datadir").is_ok_and(|rows| {
                rows.first().is_some_and(|row| Path::new(&row.get::<String, _>(0)) == data)
            });
            if ours {
                self.process = Some(process);
                return Ok(());
            }
            if process.has_ended() {
                return Err(self.log());
            }
            assert!(
                Instant::now() < deadline,
                "MariaDB does not answer on port {}:\n{}",
                self.port,
                self.log()
            );
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for MariaDbServer {
    fn drop(&mut self) {
        // It writes to the folder for as long as it is there.
        self.kill();
    }
}
