//! Starting, stopping and freezing a server.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::admin::Admin;
use crate::certificates::certificates;
use crate::folder::Folder;
use crate::movable_clock::MovableClock;
use crate::other_user::OtherUser;
use crate::port::on_a_free_port;
use crate::process::{Process, missing, signal_all};

/// The Debian package that brings the server, and the user that it makes.
const PACKAGE: &str = "postgresql";
pub(super) const USER: OtherUser = OtherUser("postgres");

const START_LIMIT: Duration = Duration::from_secs(20);

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions {
    settings: Vec<(String, String)>,
    movable_clock: bool,
    tls: bool,
    small_disk: bool,
}

impl PostgresOptions {
    /// The defaults of the fixture.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With a line of the server's configuration.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// All but the superuser have to come over TLS; [`PostgresServer::ca`] vouches for the server.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// With a folder beside its data, [`PostgresServer::small_disk`], that is a disk of 16 MB.
    #[must_use]
    pub fn small_disk(mut self) -> Self {
        self.small_disk = true;
        self
    }

    /// With a wall clock that [`PostgresServer::move_clock`] moves.
    #[must_use]
    pub fn movable_clock(mut self) -> Self {
        self.movable_clock = true;
        self
    }
}

/// A PostgreSQL server on the loopback interface, stopped when dropped. Everybody who connects is
/// who they say.
#[derive(Debug)]
pub struct PostgresServer {
    process: Option<Process>,
    options: PostgresOptions,
    port: u16,
    clock: Option<MovableClock>,
    folder: Folder,
    admin: Admin<sqlx::Postgres>,
}

impl PostgresServer {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it is not installed, with the package's name, or does not answer in 20 s, with its log.
    #[must_use]
    pub fn start() -> Self {
        Self::with(PostgresOptions::new())
    }

    /// The same with `options`.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn with(options: PostgresOptions) -> Self {
        let folder = Folder::new("postgres");
        let clock = options.movable_clock.then(|| MovableClock::new(folder.path()));
        let admin = Admin::new("postgres-admin");
        let server = Self { process: None, options, port: 0, clock, folder, admin };
        server.init();
        server.launched()
    }

    /// Starts on some free port.
    fn launched(mut self) -> Self {
        on_a_free_port("PostgreSQL", |port| {
            self.port = port;
            self.launch()
        });
        self
    }

    /// A server whose replicas can follow it, as any of them.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_primary() -> Self {
        Self::start()
    }

    /// A server that follows this one, which it reaches on this port, and is not promoted yet.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start), and with what `pg_basebackup` says.
    #[must_use]
    pub fn replica_over(&self, port: u16) -> Self {
        let folder = Folder::new("postgres");
        USER.let_in(folder.path());
        let from = format!("host=127.0.0.1 port={port} user=postgres");
        let options = self.options.clone().setting("primary_conninfo", &from);
        let (process, clock, admin) = (None, None, Admin::new("postgres-admin"));
        let replica = Self { process, options, port: 0, clock, folder, admin };
        replica.make_data_folder();
        let mut command = USER.command(&program("pg_basebackup"));
        command.arg("-D").arg(replica.data()).args(["-d", &from, "-X", "stream"]);
        command.args(["--checkpoint=fast", "--no-sync"]).current_dir("/");
        replica.folder.own(&mut command);
        let output = command.stdin(Stdio::null()).output().expect("pg_basebackup");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "pg_basebackup failed:\n{said}");
        fs::write(replica.data().join("standby.signal"), "").expect("a writable folder");
        replica.launched()
    }

    /// Has a replica take writes.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn promote(&self) {
        self.sql("SELECT pg_promote()");
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

    /// The folder of [`small_disk`](PostgresOptions::small_disk), for a tablespace.
    #[must_use]
    pub fn small_disk(&self) -> PathBuf {
        self.folder.path().join("small")
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

    /// The URL of a login of this server, whose tables are made if they are missing.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}?create=true", self.url_as("postgres"))
    }

    /// The URL of this user, without parameters. The password is of no account.
    #[must_use]
    pub fn url_as(&self, user: &str) -> String {
        self.url_over(user, self.addr())
    }

    /// The same over this address, as that of a proxy.
    #[must_use]
    pub fn url_over(&self, user: &str, addr: SocketAddr) -> String {
        format!("postgres://{user}:secret@{addr}/postgres")
    }

    /// The certificate that vouches for the server, where it has [`tls`](PostgresOptions::tls).
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub(super) fn admin(&self) -> &Admin<sqlx::Postgres> {
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

    /// Freezes the server with all its sessions (`SIGSTOP`): connections stay open, and nothing is
    /// answered.
    pub fn freeze(&self) {
        let Some(process) = &self.process else { return };
        // No session begins once the first of them stands still.
        process.signal(Signal::SIGSTOP);
        signal_all(&children(process.id()), Signal::SIGSTOP);
    }

    /// Wakes a frozen server (`SIGCONT`).
    pub fn thaw(&self) {
        let Some(process) = &self.process else { return };
        signal_all(&children(process.id()), Signal::SIGCONT);
        process.signal(Signal::SIGCONT);
    }

    /// Kills the server with all its sessions (`SIGKILL`).
    pub fn kill(&mut self) {
        self.admin.forget();
        if let Some(process) = self.process.take() {
            process.signal(Signal::SIGSTOP);
            let children = children(process.id());
            drop(process);
            signal_all(&children, Signal::SIGKILL);
        }
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
            assert!(Instant::now() < deadline, "PostgreSQL did not restart:\n{log}");
            sleep(Duration::from_millis(20));
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log_file(&self) -> PathBuf {
        self.data().join("server.log")
    }

    /// Makes the data folder, as the user of the server.
    fn init(&self) {
        USER.let_in(self.folder.path());
        let data = self.data();
        self.make_data_folder();
        let mut command = USER.command(&program("initdb"));
        command.arg("-D").arg(&data).args(["--no-sync", "--auth=trust", "--username=postgres"]);
        command.args(["--no-instructions", "--encoding=UTF8", "--locale=C"]);
        let output = self.folder.own(&mut command).stdin(Stdio::null()).output().expect("initdb");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "initdb failed:\n{said}");
        if self.options.tls {
            self.make_certificates();
        }
    }

    fn make_data_folder(&self) {
        let data = self.data();
        fs::create_dir(&data).expect("a writable folder");
        USER.give(&data, 0o700);
    }

    fn make_certificates(&self) {
        let [_, certificate, key] = certificates(self.folder.path());
        for (from, name) in [(certificate, "server.crt"), (key, "server.key")] {
            let to = self.data().join(name);
            fs::copy(from, &to).expect("a writable folder");
            USER.give(&to, 0o600);
        }
        let rules = "host all postgres 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 trust\n";
        fs::write(self.data().join("pg_hba.conf"), rules).expect("a writable folder");
    }

    /// Starts the process and waits for its answer; the error is its log.
    fn launch(&mut self) -> Result<(), String> {
        let data = self.data();
        let mut settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = ''\n\
             fsync = off\nfull_page_writes = off\nmax_connections = 400\nshared_buffers = 32MB\n\
             dynamic_shared_memory_type = mmap\n",
            self.port
        );
        if self.options.tls {
            settings += "ssl = on\n";
        }
        for (name, value) in &self.options.settings {
            let _never_fails = writeln!(settings, "{name} = '{value}'");
        }
        fs::write(data.join("postgresql.auto.conf"), settings).expect("a writable folder");
        let _ = fs::remove_file(self.log_file());
        // A shell, as the server's words are to be in a file.
        let mut command = USER.command(Path::new("sh"));
        command.args(["-c", "exec \"$0\" -D \"$1\" >>\"$2\" 2>&1"]);
        command.arg(program("postgres")).arg(&data).arg(self.log_file());
        if self.options.small_disk {
            command = super::disk::with_disk(&command, &self.small_disk());
        }
        command.current_dir("/");
        if let Some(clock) = &self.clock {
            clock.load(&mut command);
        }
        let mut process = Process::start(&mut command, PACKAGE, &self.folder);
        let deadline = Instant::now() + START_LIMIT;
        loop {
            // The folder tells our server from one that took the port first.
            let ours = self.try_sql("SELECT current_setting('data_directory')").is_ok_and(|rows| {
                rows.first().is_some_and(|row| {
                    sqlx::Row::get::<String, _>(row, 0) == data.display().to_string()
                })
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
                "PostgreSQL does not answer on port {}:\n{}",
                self.port,
                self.log()
            );
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // Its sessions write to the folder for as long as they are there.
        self.kill();
    }
}

/// A program of the newest server that is installed. Debian keeps each version apart.
fn program(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|version| {
            let number = version.file_name().to_str()?.parse().ok()?;
            let path = version.path().join("bin").join(name);
            path.exists().then_some((number, path))
        })
        .collect();
    found.sort();
    match found.pop() {
        Some((_, path)) => path,
        None => missing(&name, PACKAGE),
    }
}

fn children(pid: u32) -> Vec<Pid> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect()
}
