//! Starting, stopping and pausing one member.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::certificates::certificates;
use crate::folder::Folder;
use crate::port::{free_port, on_a_free_port};
use crate::process::Process;

/// How long a member may take to serve.
const START_LIMIT: Duration = Duration::from_secs(30);

const PACKAGE: &str = "etcd-server";

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct EtcdOptions {
    has_tls: bool,
    arguments: Vec<String>,
}

impl EtcdOptions {
    /// One member, whose leases can be short.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Clients come over TLS, with a certificate of their own.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.has_tls = true;
        self
    }

    /// Adds an argument of `etcd`, and its value.
    #[must_use]
    pub fn set(mut self, argument: &str, value: &str) -> Self {
        self.arguments.push(format!("--{argument}={value}"));
        self
    }
}

/// An etcd member on the loopback interface, stopped when dropped.
#[derive(Debug)]
pub struct EtcdServer {
    process: Option<Process>,
    options: EtcdOptions,
    name: String,
    port: u16,
    peer_port: u16,
    /// All members by name and port, if it is not alone.
    cluster: Option<String>,
    folder: Folder,
}

impl EtcdServer {
    /// Starts a server and waits until it serves.
    ///
    /// # Panics
    ///
    /// If etcd is not installed, with the package's name, or if it does not serve in 30 s, with
    /// what it logged.
    #[must_use]
    pub fn start() -> Self {
        Self::with(EtcdOptions::new())
    }

    /// Starts a server with `options` and waits until it serves.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn with(options: EtcdOptions) -> Self {
        // A leader that is alone is elected sooner.
        let options = options.set("heartbeat-interval", "20").set("election-timeout", "200");
        let mut server = Self::unstarted("alone", options);
        on_a_free_port("etcd", |port| {
            (server.port, server.peer_port) = (port, free_port());
            server.launch()?;
            server.wait()
        });
        server
    }

    pub(super) fn unstarted(name: &str, options: EtcdOptions) -> Self {
        let folder = Folder::new("etcd");
        if options.has_tls {
            let _ = certificates(folder.path());
        }
        let (port, peer_port) = (free_port(), free_port());
        let name = name.to_owned();
        Self { process: None, options, name, port, peer_port, cluster: None, folder }
    }

    /// One that does not run, whose certificates nobody else has.
    #[must_use]
    pub fn unstarted_with_certificates() -> Self {
        Self::unstarted("nobody", EtcdOptions::new().tls())
    }

    pub(super) fn as_member(&self) -> String {
        format!("{}=http://127.0.0.1:{}", self.name, self.peer_port)
    }

    pub(super) fn join(&mut self, cluster: String) {
        self.cluster = Some(cluster);
    }

    /// Where it listens for clients.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Where it listens for other members.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.peer_port))
    }

    /// `etcd://127.0.0.1:<port>`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("etcd://{}", self.addr())
    }

    /// The file of the certificate that has signed its own, and those of clients.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// A file of its folder.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Its log since its first start.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// Its pid.
    ///
    /// # Panics
    ///
    /// If it was killed.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("it runs").id()
    }

    /// Pauses it (`SIGSTOP`): connections stay open and nothing is answered.
    pub fn pause(&self) {
        if let Some(process) = &self.process {
            process.signal(Signal::SIGSTOP);
        }
    }

    /// Lets it go on (`SIGCONT`).
    pub fn resume(&self) {
        if let Some(process) = &self.process {
            process.signal(Signal::SIGCONT);
        }
    }

    /// Kills it (`SIGKILL`) and waits for its end.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again on what it has on its disk. It need not serve yet.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn relaunch(&mut self) {
        self.kill();
        let deadline = Instant::now() + START_LIMIT;
        while let Err(log) = self.launch() {
            assert!(Instant::now() < deadline, "etcd did not restart:\n{log}");
            sleep(Duration::from_millis(20));
        }
    }

    /// The same, and waits until it serves.
    ///
    /// # Panics
    ///
    /// If it does not serve in 30 s.
    pub fn restart(&mut self) {
        self.relaunch();
        if let Err(log) = self.wait() {
            panic!("etcd did not restart:\n{log}");
        }
    }

    pub(super) fn launch(&mut self) -> Result<(), String> {
        let scheme = if self.options.has_tls { "https" } else { "http" };
        let client = format!("{scheme}://{}", self.addr());
        let peer = format!("http://{}", self.peer_addr());
        let cluster = self.cluster.clone().unwrap_or_else(|| self.as_member());
        let path = |name: &str| self.file(name).display().to_string();
        let mut command = Command::new("etcd");
        command
            .args(["--name", &self.name, "--data-dir", &path("data"), "--logger", "zap"])
            .args(["--log-level", "warn", "--log-outputs", &path("log")])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &cluster])
            .args(&self.options.arguments);
        if self.options.has_tls {
            command
                .args(["--cert-file", &path("server.pem"), "--key-file", &path("server.key")])
                .args(["--trusted-ca-file", &path("ca.pem"), "--client-cert-auth"]);
        }
        self.process = Some(Process::start(&mut command, PACKAGE, &self.folder));
        Ok(())
    }

    /// Waits until it serves; the log if it does not.
    pub(super) fn wait(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline {
            if self.process.as_mut().is_none_or(Process::has_ended) {
                return Err(self.log());
            }
            if self.is_well() {
                return Ok(());
            }
            sleep(Duration::from_millis(10));
        }
        Err(self.log())
    }

    pub(super) fn has_tls(&self) -> bool {
        self.options.has_tls
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}
