//! The lock that everybody writes first: `SET NX PX`, and again after a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Script;
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use super::{DELETE_SCRIPT, LEASE, Rival, multiplexed};

#[derive(Clone)]
pub(crate) struct Poller {
    connection: MultiplexedConnection,
    delete: Arc<Script>,
    every: Duration,
    next_value: Arc<AtomicU64>,
}

impl Poller {
    pub(crate) async fn connect(url: &str, every: Duration) -> Self {
        Poller {
            connection: multiplexed(url).await,
            delete: Arc::new(Script::new(DELETE_SCRIPT)),
            every,
            next_value: Arc::new(AtomicU64::new(fastrand::u64(..))),
        }
    }
}

impl Rival for Poller {
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        let mut connection = self.connection.clone();
        let value = self.next_value.fetch_add(1, Ordering::Relaxed);
        let mut set = redis::cmd("SET");
        set.arg(key).arg(value).arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
        while set.query_async::<Option<String>>(&mut connection).await.expect("a server").is_none()
        {
            sleep(self.every).await;
        }
        held().await;
        let mut delete = self.delete.key(key);
        delete.arg(value).invoke_async::<u64>(&mut connection).await.expect("a server");
    }
}
