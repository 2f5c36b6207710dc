//! The conformance suite over a real ZooKeeper server, in real time.

use std::time::Duration;

use lock_core::Mode;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};
use lock_core::zookeeper::ZooKeeper;
use tests::zookeeper::ZooKeeperServer;

#[derive(Debug)]
struct OnZooKeeper {
    server: ZooKeeperServer,
    params: &'static str,
    mode: Mode,
}

impl OnZooKeeper {
    fn start() -> Self {
        Self { server: ZooKeeperServer::start(), params: "", mode: Mode::Exclusive }
    }
}

impl Subject for OnZooKeeper {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            let backend = ZooKeeper::connect(&(self.server.url() + self.params)).await;
            AnyBackend::new(backend.expect("a server that answers"))
        })
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let left = self.server.tree("/").iter().map(|node| format!("{node:?}")).collect();
        Box::pin(async move { left })
    }
}

lock_core::conformance_tests!([flavor = "multi_thread", worker_threads = 2], OnZooKeeper::start());

/// Exclusive claims in the name of Curator's write lock.
mod writers {
    use super::*;

    lock_core::conformance_tests!(
        [flavor = "multi_thread", worker_threads = 2],
        OnZooKeeper { params: "?exclusive=writer", ..OnZooKeeper::start() }
    );
}

/// A permit of one is a mutex.
mod of_one {
    use super::*;

    lock_core::conformance_tests!(
        [flavor = "multi_thread", worker_threads = 2],
        OnZooKeeper { mode: Mode::Permit { of: 1 }, ..OnZooKeeper::start() }
    );
}

#[tokio::test]
async fn one_server_passes_all_of_it_in_a_row() {
    conformance::all(&OnZooKeeper::start()).await;
}
