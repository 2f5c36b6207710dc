//! Helpers that the tests of this binary share.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use lock_core::error::ConnectError;
use lock_core::zookeeper::ZooKeeper;
use lock_core::{LockClient, LockOptions};
pub(crate) use tests::support::ms;
use tests::wait::within;
use tests::zookeeper::{ZooKeeperOptions, ZooKeeperServer};
use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) const SERVERS: usize = 3;

/// A session that tests wait the end of.
pub(crate) const SHORT: Duration = Duration::from_secs(2);

/// Sessions that no test waits the end of.
pub(crate) const LONG: Duration = Duration::from_secs(9);

/// How many servers, each a JVM, run at a time.
static PLACES: Semaphore = Semaphore::const_new(SERVERS);

/// Three servers that know nothing of each other.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) all: Vec<ZooKeeperServer>,
    _place: SemaphorePermit<'static>,
}

impl Servers {
    pub(crate) async fn start() -> Self {
        Self::with(options()).await
    }

    /// Directories of keys stay for as long as a test lasts.
    pub(crate) async fn keeping_directories() -> Self {
        Self::with(options().container_check_ms(600_000)).await
    }

    async fn with(options: ZooKeeperOptions) -> Self {
        let place = PLACES.acquire_many(3).await.expect("never closed");
        let start = |_| {
            let options = options.clone();
            std::thread::spawn(|| ZooKeeperServer::with(options))
        };
        let starting: Vec<_> = (0..SERVERS).map(start).collect();
        let all = starting.into_iter().map(|server| server.join().expect("a server"));
        Self { all: all.collect(), _place: place }
    }

    /// Each server as a member of its own.
    pub(crate) fn members(&self, session: Duration) -> Vec<ZooKeeper> {
        self.all.iter().map(|server| member_at(&server.url(), session)).collect()
    }

    /// Every node at any of them, but for those that stay.
    pub(crate) fn left(&self) -> Vec<String> {
        let nodes = self.all.iter().flat_map(|server| server.tree("/"));
        let stays = |path: &str| {
            path.contains("/{lock-tokens}") || path.ends_with("/{lock-quorum}") || path == "/locks"
        };
        nodes.filter(|node| !stays(&node.path)).map(|node| format!("{node:?}")).collect()
    }
}

/// Ticks of half a second: sessions live 1 s to 10 s. Empty containers go at once.
fn options() -> ZooKeeperOptions {
    let options = ZooKeeperOptions::new().tick_ms(500).container_check_ms(100);
    options.property("znode.container.maxPerMinute", "100000")
}

/// One server.
#[derive(Debug)]
pub(crate) struct One {
    server: ZooKeeperServer,
    _place: SemaphorePermit<'static>,
}

pub(crate) async fn one() -> One {
    let place = PLACES.acquire().await.expect("never closed");
    One { server: ZooKeeperServer::with(options()), _place: place }
}

impl One {
    pub(crate) fn member(&self) -> ZooKeeper {
        member_at(&self.url(), LONG)
    }
}

impl Deref for One {
    type Target = ZooKeeperServer;

    fn deref(&self) -> &ZooKeeperServer {
        &self.server
    }
}

impl DerefMut for One {
    fn deref_mut(&mut self) -> &mut ZooKeeperServer {
        &mut self.server
    }
}

pub(crate) fn member_at(url: &str, session: Duration) -> ZooKeeper {
    let url = format!("{url}?session={}ms", session.as_millis());
    ZooKeeper::member(&url).expect("a good URL")
}

/// The URL of these servers, with keys under `/locks` and leases of up to a second.
pub(crate) fn url(user: &str, servers: &[ZooKeeperServer], session: Duration) -> String {
    let hosts: Vec<_> = servers.iter().map(ZooKeeperServer::connect_string).collect();
    let session = session.as_millis();
    let hosts = hosts.join(",");
    format!("zookeeper+quorum://{user}{hosts}/locks?session={session}ms&lease_max=2s")
}

/// A client of such a URL.
pub(crate) async fn connect(url: &str) -> Result<LockClient, ConnectError> {
    let options = LockOptions::new().with_lease(ms(2_000)).with_wait(ms(9_000));
    LockClient::builder(url).defaults(options).connect().await
}

/// The same of servers that have just begun, which may be late for a connect.
pub(crate) async fn connected(url: &str) -> LockClient {
    let connecting = async {
        loop {
            if let Ok(locks) = connect(url).await {
                return locks;
            }
        }
    };
    within("a client", connecting).await
}

/// Waits until a quorum that was founded just now grants.
pub(crate) async fn settled(locks: &LockClient) {
    let granting = async {
        loop {
            if let Ok(guard) = locks.lock("first").await {
                return guard;
            }
        }
    };
    within("a grant", granting).await.release().await.expect("an answer");
}
