//! The conformance suite of record stores over a real `redis-server`, in real time.

use std::sync::Arc;
use std::time::Duration;

use lock_core::idempotency::{RecordId, RecordStore};
use lock_core::redis::RedisRecords;
use lock_core::test_util::BoxFuture;
use lock_core::test_util::records::{self, RecordSubject};
use tests::redis::RedisServer;

use crate::support::{pool, record_key};

/// The damages that are done to a record, as Lua, and what it is then.
const DAMAGES: [(&str, &str); 12] = [
    ("'idem2' .. string.sub(value, 6)", "a record of another version"),
    ("string.sub(value, 1, -2)", "a record cut by one byte"),
    ("string.sub(value, 1, 191)", "a record cut in its head"),
    ("string.sub(value, 1, 5)", "no more than a record's first bytes"),
    ("value .. 'x'", "a record with one byte more"),
    ("string.sub(value, 1, 5) .. 'x' .. string.sub(value, 7)", "a record in an unknown state"),
    ("string.sub(value, 1, 6) .. 'x' .. string.sub(value, 8)", "a record with a broken token"),
    ("string.sub(value, 1, 86) .. '-' .. string.sub(value, 88)", "a record with a broken time"),
    ("string.sub(value, 1, 182) .. '-' .. string.sub(value, 184)", "a record with a broken length"),
    ("string.sub(value, 1, 182) .. '0000000099' .. string.sub(value, 193)", "a wrong length"),
    ("'somebody else was here'", "a text"),
    ("''", "an empty text"),
];

/// Values of other types, by the command that makes one.
const TYPES: [[&str; 4]; 3] =
    [["RPUSH", "", "a", "b"], ["HSET", "", "a", "b"], ["ZADD", "", "1", "b"]];

#[derive(Debug)]
struct OnRedis {
    server: RedisServer,
    pooled: bool,
}

impl OnRedis {
    fn start() -> Self {
        Self { server: RedisServer::start(), pooled: false }
    }

    fn pooled() -> Self {
        Self { server: RedisServer::start(), pooled: true }
    }

    fn damage_now(&self, id: RecordId, n: usize) -> Option<String> {
        let key = record_key(id);
        if let Some((value, what)) = DAMAGES.get(n) {
            let script = format!(
                "local value = redis.call('GET', KEYS[1]) \
                 redis.call('SET', KEYS[1], {value}, 'KEEPTTL')"
            );
            self.server.command::<()>(&["EVAL", &script, "1", &key]);
            return Some((*what).to_owned());
        }
        let mut command = *TYPES.get(n - DAMAGES.len())?;
        command[1] = &key;
        self.server.command::<()>(&["DEL", &key]);
        self.server.command::<()>(&command);
        Some(format!("what {} makes", command[0]))
    }
}

impl RecordSubject for OnRedis {
    fn open(&self) -> BoxFuture<'_, Arc<dyn RecordStore>> {
        Box::pin(async {
            let records = if self.pooled {
                RedisRecords::with_pool(pool(&self.server.url())).await
            } else {
                RedisRecords::connect(&self.server.url()).await
            };
            let records: Arc<dyn RecordStore> = Arc::new(records.expect("a server that answers"));
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
        let what = self.damage_now(id, n);
        Box::pin(async { what })
    }

    fn dump(&self, id: RecordId) -> BoxFuture<'_, Vec<u8>> {
        let dump = self.server.command(&["DUMP", &record_key(id)]);
        Box::pin(async { dump })
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let keys = self.server.keys().into_iter().map(|key| format!("{key:?}")).collect();
        Box::pin(async { keys })
    }
}

lock_core::record_conformance_tests!(
    [flavor = "multi_thread", worker_threads = 2],
    OnRedis::start()
);

/// Once more in a row, over the pool of an application; and every record has a time to live.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_passes_all_of_it_in_a_row_through_a_pool() {
    let subject = OnRedis::pooled();
    records::all(&subject).await;
    for key in subject.server.keys() {
        let damaged = key.kind != "string";
        assert!(damaged || key.ttl_ms.is_some(), "{key:?} lives for ever");
    }
}
