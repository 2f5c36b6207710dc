//! How a fixture's server is configured.

use std::ffi::OsString;
use std::path::Path;

/// The password of the user that the fixture itself logs in as.
pub(super) const FIXTURE_PASSWORD: &str = "for-the-fixture-only";

/// The configuration of a [`RedisServer`](super::RedisServer).
///
/// By default: no persistence, no password, no memory limit, `DEBUG` allowed from the loopback
/// interface.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    pub(super) binary: OsString,
    pub(super) password: Option<String>,
    pub(super) acl: Option<Vec<String>>,
    pub(super) unix_socket: bool,
    pub(super) movable_clock: bool,
    arguments: Vec<(String, String)>,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl RedisOptions {
    /// A server without persistence: the `redis-server` of the path, or the program that the
    /// environment variable `REDIS_SERVER` names.
    #[must_use]
    pub fn new() -> Self {
        RedisOptions {
            binary: std::env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into()),
            password: None,
            acl: None,
            unix_socket: false,
            movable_clock: false,
            arguments: Vec::new(),
        }
    }

    /// Another program than that of [`new`](Self::new).
    #[must_use]
    pub fn binary(mut self, program: impl Into<OsString>) -> Self {
        self.binary = program.into();
        self
    }

    /// Keeps an append-only file, written before each answer: what was answered outlives a `SIGKILL`.
    ///
    /// Written each second, a server puts a write off by up to 2 s while the disk is busy.
    #[must_use]
    pub fn aof(self) -> Self {
        self.set("appendonly", "yes").set("appendfsync", "always")
    }

    /// Limits the memory to `bytes` and evicts by `policy` (`noeviction`, `volatile-lru` …).
    #[must_use]
    pub fn maxmemory(self, bytes: u64, policy: &str) -> Self {
        self.set("maxmemory", &bytes.to_string()).set("maxmemory-policy", policy)
    }

    /// Requires `password` of the default user.
    #[must_use]
    pub fn requirepass(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.set("requirepass", password)
    }

    /// Writes an ACL file of `lines`, each as `user <name> <rules>`.
    ///
    /// The fixture adds a user of its own with every right, so that it can still look inside.
    /// The default user has every right unless a line says otherwise.
    #[must_use]
    pub fn acl<S: Into<String>>(mut self, lines: impl IntoIterator<Item = S>) -> Self {
        self.acl = Some(lines.into_iter().map(Into::into).collect());
        self
    }

    /// Listens on a unix socket in the server's directory too.
    #[must_use]
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Lets a test move the server's clock with
    /// [`RedisServer::move_clock`](super::RedisServer::move_clock).
    #[must_use]
    pub fn movable_clock(mut self) -> Self {
        self.movable_clock = true;
        self
    }

    /// Sets any other directive of `redis.conf`.
    #[must_use]
    pub fn set(mut self, directive: &str, value: &str) -> Self {
        self.arguments.push((directive.to_owned(), value.to_owned()));
        self
    }

    /// Whether a directive was set.
    pub(super) fn has(&self, directive: &str) -> bool {
        self.arguments.iter().any(|(name, _)| name == directive)
    }

    /// The file that the server reads, for `port` and `directory`.
    ///
    /// A file and not arguments, since the process list is no place for a password.
    pub(super) fn config_file(&self, port: u16, directory: &Path) -> String {
        let directory = directory.display();
        let mut text = format!(
            "bind 127.0.0.1\nport {port}\ndir {directory}\nlogfile {directory}/redis.log\n\
             save \"\"\nenable-debug-command local\n"
        );
        if self.unix_socket {
            text += &format!("unixsocket {directory}/redis.sock\nunixsocketperm 700\n");
        }
        if self.acl.is_some() {
            text += &format!("aclfile {directory}/users.acl\n");
        }
        for (directive, value) in &self.arguments {
            text += &format!("{directive} {value:?}\n");
        }
        text
    }

    /// The ACL file, if there is one.
    pub(super) fn acl_file(&self) -> Option<String> {
        let lines = self.acl.as_ref()?;
        let fixture = format!("user fixture on >{FIXTURE_PASSWORD} ~* &* +@all");
        Some(lines.join("\n") + "\n" + &fixture + "\n")
    }
}
