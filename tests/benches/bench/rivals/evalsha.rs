//! Bare round trips of scripts over one multiplexed connection: what no lock can go below.

use std::sync::Arc;

use redis::Script;
use redis::aio::MultiplexedConnection;

use super::{DELETE_SCRIPT, LEASE, Rival, multiplexed};

const EMPTY_SCRIPT: &str = "return 1";
const SET_SCRIPT: &str = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])";

#[derive(Clone)]
pub(crate) struct Evalsha {
    connection: MultiplexedConnection,
    scripts: Arc<[Script; 2]>,
}

impl Evalsha {
    pub(crate) async fn empty(url: &str) -> Self {
        Self::new(url, [EMPTY_SCRIPT, EMPTY_SCRIPT]).await
    }

    pub(crate) async fn set_and_delete(url: &str) -> Self {
        Self::new(url, [SET_SCRIPT, DELETE_SCRIPT]).await
    }

    async fn new(url: &str, scripts: [&str; 2]) -> Self {
        let scripts = Arc::new(scripts.map(Script::new));
        Evalsha { connection: multiplexed(url).await, scripts }
    }

    /// One round trip.
    pub(crate) async fn round_trip(&self, which: usize, key: &str) {
        let mut connection = self.connection.clone();
        let mut call = self.scripts[which].key(key);
        call.arg("0123456789abcdef").arg(LEASE.as_millis() as u64);
        call.invoke_async::<redis::Value>(&mut connection).await.expect("a server");
    }
}

impl Rival for Evalsha {
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        self.round_trip(0, key).await;
        held().await;
        self.round_trip(1, key).await;
    }
}
