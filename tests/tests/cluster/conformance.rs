//! The conformance suite over a cluster, in real time.

use std::time::Duration;

use lock_core::redis::Redis;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};
use tests::redis::RedisCluster;
use tests::scene::layouts::CLUSTER;

use crate::support::left_at;

#[derive(Debug)]
struct OnCluster(RedisCluster);

impl Subject for OnCluster {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            let backend = Redis::connect(&self.0.url(), None).await;
            CLUSTER.checked(AnyBackend::new(backend.expect("a cluster that answers")))
        })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let left = left_at(&self.0);
        Box::pin(async move { left })
    }
}

/// V1, V2, V5, V6: a cluster does what one server does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_passes_all_of_it_in_a_row() {
    conformance::all(&OnCluster(RedisCluster::start().await)).await;
}
