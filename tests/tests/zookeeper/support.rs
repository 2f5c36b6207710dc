//! Helpers that the tests of this binary share.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use lock_core::LockClient;
use tests::proxy::{Match, Proxy};
use tests::wait::eventually;
use tests::zookeeper::{ZooKeeperOptions, ZooKeeperServer};
use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) use tests::support::{History, LATE, SLACK, everything, ms};

/// A tick of the servers here: sessions live 1 s to 10 s, and end up to a tick late.
pub(crate) const TICK: Duration = Duration::from_millis(500);

/// A session that tests wait the end of.
pub(crate) const SHORT: Duration = Duration::from_secs(2);

/// A session that ends nowhere but is to pass, of a holder who must not lose it to a busy machine.
pub(crate) const STEADY: Duration = Duration::from_secs(4);

/// A session that outlives each fault of a test; a waiter of it asks again after a third.
pub(crate) const LONG: Duration = Duration::from_secs(9);

/// A lease that no test waits the end of.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// How many servers, each a JVM, run at a time.
static PLACES: Semaphore = Semaphore::const_new(3);

/// A server of a test's own, with a place among those that may run.
#[derive(Debug)]
pub(crate) struct Zoo {
    server: ZooKeeperServer,
    _place: SemaphorePermit<'static>,
}

impl Zoo {
    pub(crate) async fn start() -> Self {
        Self::with(ZooKeeperOptions::new()).await
    }

    /// With ticks as all have here, and empty containers looked for each 100 ms unless `options`
    /// say otherwise in [`churning`](Self::churning).
    pub(crate) async fn with(options: ZooKeeperOptions) -> Self {
        Self::churning(options, 100).await
    }

    /// Empty containers are looked for each `every_ms`.
    pub(crate) async fn churning(options: ZooKeeperOptions, every_ms: u32) -> Self {
        let place = PLACES.acquire().await.expect("never closed");
        let tick_ms = u32::try_from(TICK.as_millis()).expect("a short tick");
        let options = options.tick_ms(tick_ms).container_check_ms(every_ms).no_force_sync();
        // As fast as they are found, where a server takes 10,000 a minute by default.
        let options = options.property("znode.container.maxPerMinute", "100000");
        Self { server: ZooKeeperServer::with(options), _place: place }
    }

    /// The URL of this server for sessions of `session`.
    pub(crate) fn at(&self, session: Duration) -> String {
        with_session(&self.server.url(), session)
    }

    /// The lock nodes of `key`, in their order.
    pub(crate) fn line(&self, key: &str) -> Vec<String> {
        let mut line = self.server.children(&format!("/{key}"));
        line.retain(|name| name.contains("-lock-"));
        line.sort_by_key(|name| name.rsplit_once('-').map(|(_, number)| number.to_owned()));
        line
    }

    /// The session that the first lock node of `key` belongs to, and the transaction that
    /// created the node.
    pub(crate) fn holder(&self, key: &str) -> Option<(i64, u64)> {
        let path = format!("/{key}/{}", self.line(key).first()?);
        let node = self.server.node(&path)?;
        let birth = u64::try_from(node.czxid).expect("a transaction");
        Some((node.ephemeral_owner.expect("lock nodes are ephemeral"), birth))
    }

    /// Waits until `n` claims stand in the line for `key`, the holder included.
    pub(crate) async fn line_of(&self, key: &str, n: usize) {
        eventually(&format!("{n} claims in line"), || self.line(key).len() == n).await;
    }
}

impl Zoo {
    /// Waits until each of the `n` claims in the line for `key` but the first watches the node
    /// before its own.
    pub(crate) async fn watching(&self, key: &str, n: usize) {
        eventually(&format!("{n} claims in line, and watches between them"), || {
            let line = self.line(key);
            line.len() == n && {
                let watched = self.word("wchp");
                let watched: Vec<_> = watched.split("\n/").collect();
                let by_another = |name: &String| {
                    let sessions = watched.iter().find_map(|part| part.split_once(name.as_str()));
                    let Some(owner) = self.node(&format!("/{key}/{name}")) else { return false };
                    let owner = format!("{:#x}", owner.ephemeral_owner.unwrap_or_default());
                    sessions.is_some_and(|(_, ids)| ids.split_whitespace().any(|id| id != owner))
                };
                line[..n - 1].iter().all(by_another)
            }
        })
        .await;
    }
}

impl Deref for Zoo {
    type Target = ZooKeeperServer;

    fn deref(&self) -> &ZooKeeperServer {
        &self.server
    }
}

impl DerefMut for Zoo {
    fn deref_mut(&mut self) -> &mut ZooKeeperServer {
        &mut self.server
    }
}

/// A URL that asks for sessions of `session`.
pub(crate) fn with_session(url: &str, session: Duration) -> String {
    format!("{url}?session={}ms", session.as_millis())
}

/// A client whose acquires wait 9 s, and whose leases last longer than its session.
pub(crate) async fn connect(url: &str) -> LockClient {
    connect_with(url, LEASE).await
}

/// The same with another lease.
pub(crate) async fn connect_with(url: &str, lease: Duration) -> LockClient {
    tests::support::connect(url, lease).await
}

/// A client with sessions of `session`, behind a proxy of its own.
pub(crate) async fn behind_proxy(server: &Zoo, session: Duration) -> (Proxy, LockClient) {
    let proxy = Proxy::zookeeper(server.addr());
    let locks = connect(&with_session(&proxy.url(), session)).await;
    (proxy, locks)
}

/// The next creation of a lock node for `key`.
pub(crate) fn create_of(key: &str) -> Match {
    Match::verb("CREATE").containing(format!("/{key}/")).containing("-lock-")
}

/// The creation of a lock node for `key`, which nobody has used: one before it finds no directory.
pub(crate) fn first_create_of(key: &str) -> Match {
    create_of(key).after(1)
}

/// The next write by which a session proves that it lives.
pub(crate) fn beat() -> Match {
    Match::verb("SETDATA").containing("/{lock-sessions}/")
}

/// V6: of these clients, and of all other processes, no key busy, no waiter and no task is left,
/// and at the server no session, no node, no container, no watch.
///
/// Tests that call it have joined the tasks of their own.
pub(crate) async fn nothing_left(server: &Zoo, clients: impl IntoIterator<Item = LockClient>) {
    tests::support::nothing_left(clients, || {
        let sessions = server.sessions().into_iter().map(|session| format!("{session:?}"));
        let nodes = server.tree("/").into_iter().map(|node| format!("{node:?}"));
        sessions.chain(nodes).collect()
    })
    .await;
    assert_eq!(server.watches(), 0);
}

/// V5 and V6 for `key` while the session of those who had it goes on: no node of theirs is left,
/// and another client has the key at once.
pub(crate) async fn the_next_one_proceeds(server: &Zoo, key: &str) {
    server.line_of(key, 0).await;
    let next = connect(&server.at(LONG)).await;
    next.lock(key).await.expect("a free key").release().await.expect("a release");
}
