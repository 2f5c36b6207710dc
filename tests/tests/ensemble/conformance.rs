//! The conformance suite, each process at another server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};
use lock_core::zookeeper::ZooKeeper;
use tests::scene::layouts::ENSEMBLE;
use tests::zookeeper::ZooKeeperEnsemble;

const SERVERS: usize = 3;

#[derive(Debug)]
struct OnEnsemble {
    ensemble: ZooKeeperEnsemble,
    opened: AtomicUsize,
}

impl Subject for OnEnsemble {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        let server = self.opened.fetch_add(1, Ordering::Relaxed) % SERVERS;
        Box::pin(async move {
            let backend = ZooKeeper::connect(&self.ensemble.url_of(server)).await;
            ENSEMBLE.checked(AnyBackend::new(backend.expect("a server that answers")))
        })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let leader = self.ensemble.server(self.ensemble.leader());
        let left = leader.tree("/").iter().map(|node| format!("{node:?}")).collect();
        Box::pin(async move { left })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_pass_all_of_it_in_a_row() {
    let ensemble = ZooKeeperEnsemble::start(SERVERS);
    conformance::all(&OnEnsemble { ensemble, opened: AtomicUsize::new(0) }).await;
}
