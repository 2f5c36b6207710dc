//! Idempotency records at a cluster.

use std::sync::Arc;
use std::time::Duration;

use lock_core::idempotency::{RecordId, RecordStore};
use lock_core::redis::RedisRecords;
use lock_core::test_util::BoxFuture;
use lock_core::test_util::records::{self, RecordSubject};
use tests::redis::{RedisCluster, RedisServer};
use tests::said::everything;

#[derive(Debug)]
struct OnCluster(RedisCluster);

fn record_key(id: RecordId) -> String {
    format!("idem:{{{id}}}")
}

impl RecordSubject for OnCluster {
    fn open(&self) -> BoxFuture<'_, Arc<dyn RecordStore>> {
        Box::pin(async {
            let records = RedisRecords::connect(&self.0.url()).await;
            let records: Arc<dyn RecordStore> = Arc::new(records.expect("a cluster"));
            records
        })
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn damage(&self, id: RecordId, n: usize) -> BoxFuture<'_, Option<String>> {
        let key = record_key(id);
        let what = (n == 0).then(|| {
            self.0.server_of_name(&key).command::<()>(&["SET", &key, "somebody else's"]);
            "a text".to_owned()
        });
        Box::pin(async { what })
    }

    fn dump(&self, id: RecordId) -> BoxFuture<'_, Vec<u8>> {
        let key = record_key(id);
        let dump = self.0.server_of_name(&key).command(&["DUMP", &key]);
        Box::pin(async { dump })
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let keys = self.0.masters().into_iter().flat_map(RedisServer::keys);
        let keys = keys.map(|key| format!("{key:?}")).collect();
        Box::pin(async { keys })
    }
}

/// V7: records at a cluster are what they are at one server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_at_a_cluster_pass_all_of_their_suite_in_a_row() {
    records::all(&OnCluster(RedisCluster::start().await)).await;
}

/// V8: records at one server and at a cluster are not taken for each other.
#[tokio::test]
async fn records_at_a_node_of_a_cluster_are_refused() {
    let (server, cluster) = (RedisServer::start(), RedisCluster::start().await);
    let error = RedisRecords::connect(&cluster.node(0).url()).await.unwrap_err();
    assert!(everything(&error).contains("redis+cluster://"), "{error}");
    let url = format!("redis+cluster://{}", server.addr());
    let error = RedisRecords::connect(&url).await.unwrap_err();
    assert!(everything(&error).contains("use `redis://`"), "{error}");
}
