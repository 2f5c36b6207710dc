//! What the tests of this binary share.

use std::time::Duration;

use lock_core::backend::ZooKeeper;
use lock_core::quorum::Quorum;
use tests::zookeeper::{ZooKeeperOptions, ZooKeeperServer};
use tokio::sync::{Semaphore, SemaphorePermit};

pub(crate) const SERVERS: usize = 3;

/// Sessions that no test waits the end of.
pub(crate) const LONG: Duration = Duration::from_secs(9);

/// Each server is a JVM: one quorum at a time.
static PLACE: Semaphore = Semaphore::const_new(1);

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Three servers that know nothing of each other.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) all: Vec<ZooKeeperServer>,
    _place: SemaphorePermit<'static>,
}

impl Servers {
    pub(crate) async fn start() -> Self {
        let place = PLACE.acquire().await.expect("never closed");
        let options = ZooKeeperOptions::new().tick_ms(500).container_check_ms(100);
        let options = options.property("znode.container.maxPerMinute", "100000");
        let start = |_| {
            let options = options.clone();
            std::thread::spawn(|| ZooKeeperServer::with(options))
        };
        let starting: Vec<_> = (0..SERVERS).map(start).collect();
        let all = starting.into_iter().map(|server| server.join().expect("a server"));
        Self { all: all.collect(), _place: place }
    }

    /// A quorum of them as one more process would have it.
    pub(crate) fn quorum(&self, session: Duration) -> Quorum<ZooKeeper> {
        let urls = self.all.iter().map(ZooKeeperServer::url);
        quorum_at(urls, session)
    }

    /// Every node at any of them, but for those that stay.
    pub(crate) fn left(&self) -> Vec<String> {
        let nodes = self.all.iter().flat_map(|server| server.tree("/"));
        let stays = |path: &str| path.starts_with("/{lock-fences}") || path == "/{lock-quorum}";
        nodes.filter(|node| !stays(&node.path)).map(|node| format!("{node:?}")).collect()
    }
}

/// A quorum of the servers at these URLs.
pub(crate) fn quorum_at(
    urls: impl Iterator<Item = String>,
    session: Duration,
) -> Quorum<ZooKeeper> {
    let member = |url: String| {
        let url = format!("{url}?session={}ms", session.as_millis());
        ZooKeeper::member(&url).expect("a good URL")
    };
    Quorum::new(urls.map(member).collect()).expect("three")
}
