//! A pgbouncer before a server.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::server::{PostgresServer, USER};
use crate::folder::Folder;
use crate::port::free_port;
use crate::process::Process;

const PACKAGE: &str = "pgbouncer";

/// A pgbouncer in transaction mode: each statement may be served by another connection.
#[derive(Debug)]
pub struct PgBouncer {
    _process: Process,
    port: u16,
    _folder: Folder,
}

impl PgBouncer {
    /// Starts one before this server, and waits until it listens.
    ///
    /// # Panics
    ///
    /// If it is not installed, with the package's name, or does not listen in 10 s.
    #[must_use]
    pub fn start(server: &PostgresServer) -> Self {
        let folder = Folder::new("pooler");
        USER.let_in(folder.path());
        let config = folder.path().join("pgbouncer.ini");
        let port = free_port();
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=postgres\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             pool_mode = transaction\nmax_client_conn = 200\ndefault_pool_size = 4\n",
            server.port()
        );
        fs::write(&config, text).expect("a writable folder");
        let mut command = USER.command(Path::new("pgbouncer"));
        command.arg("-q").arg(&config).current_dir("/");
        let mut process = Process::start(&mut command, PACKAGE, &folder);
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let has_ended = process.has_ended();
            assert!(!has_ended, "pgbouncer did not start: is the package `{PACKAGE}` installed?");
            assert!(Instant::now() < deadline, "pgbouncer does not listen on port {port}");
            sleep(Duration::from_millis(5));
        }
        Self { _process: process, port, _folder: folder }
    }

    /// The URL of the server behind it, without parameters.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres:secret@127.0.0.1:{}/postgres", self.port)
    }
}
