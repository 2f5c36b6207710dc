//! The conformance suite over a real ZooKeeper server, in real time.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::Mode;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};
use lock_core::zookeeper::ZooKeeper;
use tests::scene::layouts::ZOOKEEPER;
use tests::zookeeper::ZooKeeperServer;

/// One for all: each rule has a directory of its own.
static SERVER: LazyLock<ZooKeeperServer> = LazyLock::new(ZooKeeperServer::start);

#[derive(Debug)]
struct OnZooKeeper {
    /// Where its keys are.
    path: String,
    params: &'static str,
    mode: Mode,
}

impl OnZooKeeper {
    fn new() -> Self {
        static RULES: AtomicU32 = AtomicU32::new(0);
        let path = format!("/rule-{}", RULES.fetch_add(1, Ordering::Relaxed));
        Self { path, params: "", mode: Mode::Exclusive }
    }
}

impl Subject for OnZooKeeper {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            let backend = ZooKeeper::connect(&(SERVER.url() + &self.path + self.params)).await;
            ZOOKEEPER.checked(AnyBackend::new(backend.expect("a server that answers")))
        })
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        // The directory itself stays: it is in the URL.
        let mut left = SERVER.tree("/");
        left.retain(|node| node.path.starts_with(&format!("{}/", self.path)));
        let left = left.iter().map(|node| format!("{node:?}")).collect();
        Box::pin(async move { left })
    }
}

lock_core::conformance_tests!([flavor = "multi_thread", worker_threads = 2], OnZooKeeper::new());

/// Exclusive claims in the name of Curator's write lock.
mod writers {
    use super::*;

    lock_core::conformance_tests!(
        [flavor = "multi_thread", worker_threads = 2],
        OnZooKeeper { params: "?exclusive=writer", ..OnZooKeeper::new() }
    );
}

/// A permit of one is a mutex.
mod of_one {
    use super::*;

    lock_core::conformance_tests!(
        [flavor = "multi_thread", worker_threads = 2],
        OnZooKeeper { mode: Mode::Permit { of: 1 }, ..OnZooKeeper::new() }
    );
}

#[tokio::test]
async fn one_directory_passes_all_of_it_in_a_row() {
    conformance::all(&OnZooKeeper::new()).await;
}
