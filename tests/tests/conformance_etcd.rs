//! The conformance suite over a real etcd, in real time.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::Mode;
use lock_core::etcd::Etcd;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};
use tests::etcd::EtcdServer;
use tests::scene::layouts::ETCD;

/// One for all: the keys of each rule begin with another word.
static SERVER: LazyLock<EtcdServer> = LazyLock::new(EtcdServer::start);

#[derive(Debug)]
struct OnEtcd {
    path: String,
    mode: Mode,
}

impl OnEtcd {
    fn new(mode: Mode) -> Self {
        static RULES: AtomicU32 = AtomicU32::new(0);
        let path = format!("rule-{}", RULES.fetch_add(1, Ordering::Relaxed));
        Self { path, mode }
    }
}

impl Subject for OnEtcd {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            let backend = Etcd::connect(&format!("{}/{}", SERVER.url(), self.path)).await;
            ETCD.checked(AnyBackend::new(backend.expect("a server that answers")))
        })
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let left = SERVER.keys(&format!("{}/", self.path));
        let left = left.iter().map(|key| format!("{key:?}")).collect();
        Box::pin(async move { left })
    }
}

lock_core::conformance_tests!(
    [flavor = "multi_thread", worker_threads = 2],
    OnEtcd::new(Mode::Exclusive)
);

/// A permit of one is a mutex.
mod of_one {
    use super::*;

    lock_core::conformance_tests!(
        [flavor = "multi_thread", worker_threads = 2],
        OnEtcd::new(Mode::Permit { of: 1 })
    );
}

#[tokio::test]
async fn one_path_passes_all_of_it_in_a_row() {
    conformance::all(&OnEtcd::new(Mode::Exclusive)).await;
}
