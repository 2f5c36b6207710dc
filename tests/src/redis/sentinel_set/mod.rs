//! Three servers, one of them the master, and the sentinels that watch them.
//!
//! ```no_run
//! use tests::redis::SentinelSet;
//!
//! # async fn example() {
//! let mut set = SentinelSet::start().await;
//! let old = set.master();
//! set.server(old).freeze();
//! set.switched(old).await; // to another server
//! # }
//! ```

mod sentinel;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use self::sentinel::Sentinel;
use super::{RedisOptions, RedisServer};
use crate::wait::{PATIENCE, eventually};

/// The name of the master at the sentinels.
const MASTER: &str = "the-master";

/// How a [`SentinelSet`] is configured.
#[derive(Clone, Debug)]
pub struct SentinelOptions {
    /// The options of the servers.
    pub server: RedisOptions,
    /// The password of the servers' default user, which is set in `server` too.
    pub password: Option<String>,
    /// The password of the sentinels' default user.
    pub sentinel_password: Option<String>,
    /// After how long a silent server counts as down, in milliseconds.
    pub down_after_ms: u64,
    /// How many replicas the master has.
    pub replicas: usize,
}

impl Default for SentinelOptions {
    fn default() -> Self {
        // Replicas are there at once.
        let server = RedisOptions::new().set("repl-diskless-sync-delay", "0");
        Self { server, password: None, sentinel_password: None, down_after_ms: 6_000, replicas: 2 }
    }
}

impl SentinelOptions {
    /// A server that is to die counts as down after a second. A busy machine may take that, so this
    /// is not the default.
    #[must_use]
    pub fn hasty(mut self) -> Self {
        self.down_after_ms = 1_000;
        self
    }

    /// Requires passwords, one of the servers and one of the sentinels.
    #[must_use]
    pub fn passwords(mut self, server: &str, sentinel: &str) -> Self {
        self.server = self.server.requirepass(server).set("masterauth", server);
        self.password = Some(server.to_owned());
        self.sentinel_password = Some(sentinel.to_owned());
        self
    }

    /// Sets a directive of each server.
    #[must_use]
    pub fn set(mut self, directive: &str, value: &str) -> Self {
        self.server = self.server.set(directive, value);
        self
    }
}

/// A master, two replicas and three sentinels on the loopback interface, stopped when dropped.
#[derive(Debug)]
pub struct SentinelSet {
    servers: Vec<RedisServer>,
    sentinels: Vec<Sentinel>,
    options: SentinelOptions,
}

impl SentinelSet {
    /// Starts them, and waits until all see each other.
    ///
    /// # Panics
    ///
    /// If `redis-server` is not installed, or they do not find each other within 10 s.
    pub async fn start() -> Self {
        Self::with(SentinelOptions::default()).await
    }

    /// The same with `options`.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub async fn with(options: SentinelOptions) -> Self {
        let servers: Vec<_> =
            (0..=options.replicas).map(|_| RedisServer::with(options.server.clone())).collect();
        let port = servers[0].port().to_string();
        for replica in &servers[1..] {
            replica.command::<()>(&["REPLICAOF", "127.0.0.1", &port]);
        }
        let online = || {
            let info: String = servers[0].command(&["INFO", "replication"]);
            info.matches("state=online").count() == options.replicas
        };
        eventually("the replicas are in step", online).await;
        let sentinels: Vec<_> =
            (0..3).map(|_| Sentinel::start(MASTER, servers[0].port(), &options)).collect();
        let set = Self { servers, sentinels, options };
        eventually("all see each other", || set.sees_all()).await;
        set
    }

    fn sees_all(&self) -> bool {
        let seen = |field: &str, n: usize| {
            let n = n.to_string();
            self.sentinels.iter().all(|one| one.field(MASTER, field).as_ref() == Some(&n))
        };
        seen("num-slaves", self.options.replicas) && seen("num-other-sentinels", 2)
    }

    /// `redis+sentinel://…` with all sentinels.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(&[0, 1, 2])
    }

    /// `redis+sentinel://…` with some of the sentinels, in this order.
    #[must_use]
    pub fn url_of(&self, sentinels: &[usize]) -> String {
        let at = |one: &usize| format!("127.0.0.1:{}", self.sentinels[*one].port());
        let hosts: Vec<_> = sentinels.iter().map(at).collect();
        let login = self.options.password.as_ref().map(|password| format!(":{password}@"));
        let password = self.options.sentinel_password.as_ref();
        let query = password.map(|password| format!("?sentinel_password={password}"));
        let (login, query) = (login.unwrap_or_default(), query.unwrap_or_default());
        format!("redis+sentinel://{login}{}/{MASTER}{query}", hosts.join(","))
    }

    /// Where the sentinels listen.
    #[must_use]
    pub fn sentinel_addrs(&self) -> Vec<SocketAddr> {
        let at = |one: &Sentinel| SocketAddr::from(([127, 0, 0, 1], one.port()));
        self.sentinels.iter().map(at).collect()
    }

    /// The URLs of the sentinels, for a client of another library.
    #[must_use]
    pub fn sentinel_urls(&self) -> Vec<String> {
        self.sentinels.iter().map(|one| format!("redis://127.0.0.1:{}", one.port())).collect()
    }

    /// The name of the master at the sentinels.
    #[must_use]
    pub fn name(&self) -> &'static str {
        MASTER
    }

    /// One server, which may be the master or not.
    #[must_use]
    pub fn server(&self, server: usize) -> &RedisServer {
        &self.servers[server]
    }

    /// One server, to kill or to restart it.
    #[must_use]
    pub fn server_mut(&mut self, server: usize) -> &mut RedisServer {
        &mut self.servers[server]
    }

    /// One sentinel, to freeze, thaw or kill it.
    #[must_use]
    pub fn sentinel(&mut self, sentinel: usize) -> &mut Sentinel {
        &mut self.sentinels[sentinel]
    }

    /// The servers but one.
    #[must_use]
    pub fn others(&self, than: usize) -> Vec<usize> {
        (0..self.servers.len()).filter(|server| *server != than).collect()
    }

    /// The number of the server that the sentinels name; the first one that answers is believed.
    ///
    /// # Panics
    ///
    /// If none answers within [`PATIENCE`], or names a server of this set.
    #[must_use]
    pub fn master(&self) -> usize {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(port) = self.sentinels.iter().find_map(|one| one.names(MASTER)) {
                return self.of_port(port);
            }
            assert!(Instant::now() < until, "no sentinel answers");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn of_port(&self, port: u16) -> usize {
        let at = self.servers.iter().position(|server| server.port() == port);
        at.expect("a server of this set")
    }

    /// Another server than `old`, if any sentinel names one.
    #[must_use]
    pub fn named_other_than(&self, old: usize) -> Option<usize> {
        let old = self.servers[old].port();
        let mut named = self.sentinels.iter().filter_map(|one| one.names(MASTER));
        named.find(|port| *port != old).map(|port| self.of_port(port))
    }

    /// Whether any sentinel names another server than `old`.
    #[must_use]
    pub fn has_begun_to_switch(&self, old: usize) -> bool {
        self.named_other_than(old).is_some()
    }

    /// Waits until any sentinel names another server than `old`. An election that fails is held again
    /// after 10 s, so this has more time than other waits.
    ///
    /// # Panics
    ///
    /// After twice [`PATIENCE`].
    pub async fn begins_to_switch(&self, old: usize) {
        let until = Instant::now() + 2 * PATIENCE;
        while !self.has_begun_to_switch(old) {
            assert!(Instant::now() < until, "no sentinel names another master");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Whether any sentinel takes the master for down by itself.
    #[must_use]
    pub fn suspects_the_master(&self) -> bool {
        let flags = self.sentinels.iter().filter_map(|one| one.field(MASTER, "flags"));
        flags.into_iter().any(|flags| flags.contains("s_down"))
    }

    /// Waits until all sentinels that answer name one other server than `old`; which.
    ///
    /// # Panics
    ///
    /// After three times [`PATIENCE`].
    pub async fn switched(&self, old: usize) -> usize {
        self.begins_to_switch(old).await;
        let old_port = self.servers[old].port();
        eventually("the sentinels name one other master", || {
            let mut named = self.sentinels.iter().filter_map(|one| one.names(MASTER));
            let first = named.next();
            first.is_some_and(|port| port != old_port) && named.all(|port| Some(port) == first)
        })
        .await;
        self.master()
    }

    /// Has the sentinels make another server the master, while the old one is well; which.
    ///
    /// # Panics
    ///
    /// If they do not.
    pub async fn failover(&self) -> usize {
        let old = self.master();
        let old_port = self.servers[old].port();
        eventually("a sentinel that switches", || {
            // One, and again only when it has given up: each that is told begins a switch of its own.
            let flags = |one: &Sentinel| one.field(MASTER, "flags");
            let first = self.sentinels.iter().find_map(|one| Some((one, flags(one)?)));
            if let Some((one, flags)) = first
                && !flags.contains("failover_in_progress")
                && one.names(MASTER) == Some(old_port)
            {
                one.command(&["SENTINEL", "FAILOVER", MASTER]);
            }
            self.has_begun_to_switch(old)
        })
        .await;
        self.switched(old).await
    }

    /// Waits until `n` replicas are in step with a server.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`].
    pub async fn in_step(&self, master: usize, n: usize) {
        eventually("replicas in step", || {
            let info: redis::RedisResult<String> =
                self.servers[master].try_command(&["INFO", "replication"]);
            info.is_ok_and(|info| info.matches("state=online").count() >= n)
        })
        .await;
    }
}
