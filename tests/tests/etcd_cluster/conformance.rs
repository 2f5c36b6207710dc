//! The conformance suite over three members, in real time.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::etcd::Etcd;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject};
use tests::etcd::EtcdCluster;
use tests::scene::layouts::ETCD_CLUSTER;

static CLUSTER: LazyLock<EtcdCluster> = LazyLock::new(|| EtcdCluster::start(3));

#[derive(Debug)]
struct OnCluster(String);

impl OnCluster {
    fn new() -> Self {
        static RULES: AtomicU32 = AtomicU32::new(0);
        Self(format!("rule-{}", RULES.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Subject for OnCluster {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            let backend = Etcd::connect(&format!("{}/{}", CLUSTER.url(), self.0)).await;
            ETCD_CLUSTER.checked(AnyBackend::new(backend.expect("members that answer")))
        })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let left = CLUSTER.member(0).keys(&format!("{}/", self.0));
        let left = left.iter().map(|key| format!("{key:?}")).collect();
        Box::pin(async move { left })
    }
}

lock_core::conformance_tests!([flavor = "multi_thread", worker_threads = 2], OnCluster::new());
