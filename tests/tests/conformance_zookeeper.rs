//! The conformance suite over a real ZooKeeper server, in real time.

use std::time::Duration;

use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};
use lock_core::zookeeper::ZooKeeper;
use tests::zookeeper::ZooKeeperServer;

#[derive(Debug)]
struct OnZooKeeper(ZooKeeperServer);

impl OnZooKeeper {
    fn start() -> Self {
        Self(ZooKeeperServer::start())
    }
}

impl Subject for OnZooKeeper {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            let backend = ZooKeeper::connect(&self.0.url()).await;
            AnyBackend::new(backend.expect("a server that answers"))
        })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let left = self.0.tree("/").iter().map(|node| format!("{node:?}")).collect();
        Box::pin(async move { left })
    }
}

lock_core::conformance_tests!([flavor = "multi_thread", worker_threads = 2], OnZooKeeper::start());

#[tokio::test]
async fn one_server_passes_all_of_it_in_a_row() {
    conformance::all(&OnZooKeeper::start()).await;
}
