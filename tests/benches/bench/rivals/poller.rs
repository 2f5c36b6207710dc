//! The lock that everybody writes first: `SET NX PX`, and again after a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Script;
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use super::{DELETE_SCRIPT, LEASE, PERMITS, Rival, multiplexed};

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

impl Poller {
    /// Sets a key to a value of its own, unless somebody else has it.
    async fn set(&self, key: &str) -> Option<u64> {
        let value = self.next_value.fetch_add(1, Ordering::Relaxed);
        let mut set = redis::cmd("SET");
        set.arg(key).arg(value).arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
        let answer = set.query_async::<Option<String>>(&mut self.connection.clone()).await;
        answer.expect("a server").map(|_| value)
    }

    async fn delete(&self, key: &str, value: u64) {
        let (mut delete, mut connection) = (self.delete.key(key), self.connection.clone());
        delete.arg(value).invoke_async::<u64>(&mut connection).await.expect("a server");
    }
}

impl Rival for Poller {
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        let value = loop {
            match self.set(key).await {
                Some(value) => break value,
                None => sleep(self.every).await,
            }
        };
        held().await;
        self.delete(key, value).await;
    }
}

/// The semaphore that everybody writes first: a key for each permit, tried from a random one on, and
/// again after a while.
#[derive(Clone)]
pub(crate) struct SlotPoller(Poller);

impl SlotPoller {
    pub(crate) async fn connect(url: &str, every: Duration) -> Self {
        SlotPoller(Poller::connect(url, every).await)
    }

    async fn take(&self, key: &str) -> Option<(String, u64)> {
        let first = fastrand::u32(..PERMITS);
        for slot in (first..PERMITS).chain(0..first) {
            let key = format!("{key}:{slot}");
            if let Some(value) = self.0.set(&key).await {
                return Some((key, value));
            }
        }
        None
    }
}

impl Rival for SlotPoller {
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        let (key, value) = loop {
            match self.take(key).await {
                Some(taken) => break taken,
                None => sleep(self.0.every).await,
            }
        };
        held().await;
        self.0.delete(&key, value).await;
    }
}
