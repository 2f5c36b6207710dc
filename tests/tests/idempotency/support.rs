//! Helpers that the tests of this binary share.

use std::time::Duration;

use bytes::Bytes;
use lock_core::LockClient;
use lock_core::idempotency::{Idempotency, RecordId, Scope};
use lock_core::redis::RedisRecords;
pub(crate) use tests::executions::{begin, replay, run};
use tests::proxy::{Match, Proxy};
use tests::redis::RedisServer;

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Where the server keeps a record.
pub(crate) fn record_key(id: RecordId) -> String {
    format!("idem:{{{id}}}")
}

/// A pool as an application has one.
pub(crate) fn pool(url: &str) -> deadpool_redis::Pool {
    let config = deadpool_redis::Config::from_url(url);
    config.create_pool(Some(deadpool_redis::Runtime::Tokio1)).expect("a pool")
}

/// One process, with locks and records at `url`.
pub(crate) async fn process(url: &str) -> Idempotency {
    let locks = LockClient::connect(url).await.expect("a server that answers");
    let records = RedisRecords::connect(url).await.expect("a server that answers");
    Idempotency::new("tests", locks, records).with_secret("the secret of these tests")
}

/// One process whose records are behind a proxy, and whose locks are not; the server knows every
/// script already.
pub(crate) async fn behind_proxy(server: &RedisServer) -> (Proxy, Idempotency) {
    let proxy = Proxy::start(server.addr());
    let warm = process(&server.url()).await;
    let fresh = proxy.url();
    run(&warm, &fresh).await.abort().await.expect("a server that answers");
    run(&warm, &fresh).await.complete(Bytes::new()).await.expect("a server that answers");
    let locks = LockClient::connect(&server.url()).await.expect("a server that answers");
    let records = RedisRecords::connect(&proxy.url()).await.expect("a server that answers");
    (proxy, Idempotency::new("tests", locks, records).with_secret("the secret of these tests"))
}

pub(crate) fn id_of(once: &Idempotency, key: &str) -> RecordId {
    once.record_id(&Scope::of("tests"), key.as_bytes())
}

/// The next call of a script for the record of `key`, after `n` of them.
pub(crate) fn call_for(once: &Idempotency, key: &str, n: u64) -> Match {
    Match::verb("EVALSHA").containing(record_key(id_of(once, key))).after(n)
}

/// The state of the record, without its payload; nothing if there is none. The mark of an abort is
/// none.
pub(crate) fn state_of(server: &RedisServer, once: &Idempotency, key: &str) -> Option<char> {
    let head: Option<String> =
        server.command(&["GETRANGE", &record_key(id_of(once, key)), "5", "5"]);
    head?.chars().next().filter(|state| *state != 'a')
}
