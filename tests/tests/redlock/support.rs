//! Helpers that the tests of this binary share.

use std::net::SocketAddr;
use std::time::Duration;

use lock_core::{LockClient, LockGuard, LockOptions};
use tests::redis::{RedisOptions, RedisServer};
pub(crate) use tests::support::ms;
use tests::wait::eventually;

/// The longest lease, where nothing else is said.
pub(crate) const LEASE_MAX: Duration = ms(1_500);

/// A quick lease and a patient wait.
pub(crate) fn options() -> LockOptions {
    LockOptions::new().with_lease(LEASE_MAX).with_wait(ms(9_000))
}

/// Servers that know nothing of each other.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) all: Vec<RedisServer>,
}

impl Servers {
    pub(crate) fn start(servers: usize) -> Self {
        Self::with(servers, &RedisOptions::new())
    }

    pub(crate) fn with(servers: usize, options: &RedisOptions) -> Self {
        Self { all: (0..servers).map(|_| RedisServer::with(options.clone())).collect() }
    }

    pub(crate) fn url(&self) -> String {
        url_of(self.all.iter().map(RedisServer::addr), "lease_max=1500ms")
    }

    /// One more process.
    pub(crate) async fn client(&self) -> LockClient {
        LockClient::connect(&self.url()).await.expect("a majority that answers")
    }

    /// Waits until servers that were just started may grant; gives the client that has waited.
    pub(crate) async fn ready(&self) -> LockClient {
        let locks = self.client().await;
        drop(lock(&locks, "ready").await);
        locks
    }

    /// Every key at any of them, but for those that stay.
    pub(crate) fn left(&self) -> Vec<String> {
        let keys = self.all.iter().flat_map(RedisServer::keys);
        let stays = |name: &str| name.ends_with(":fence") || name.starts_with("lock:quorum");
        keys.filter(|key| !stays(&key.name)).map(|key| format!("{key:?}")).collect()
    }

    /// Waits until a member has an enrolment with a minimum token, other than `before`.
    pub(crate) async fn repaired(&self, member: usize, before: &str) {
        let is_repaired = || {
            let text = self.enrolment(member);
            text.as_ref().is_some_and(|text| text != before && !text.ends_with('-'))
        };
        eventually("the member is repaired", is_repaired).await;
    }

    pub(crate) fn enrolment(&self, member: usize) -> Option<String> {
        self.all[member].command(&["GET", "lock:quorum"])
    }
}

pub(crate) fn url_of(addrs: impl Iterator<Item = SocketAddr>, query: &str) -> String {
    let hosts: Vec<_> = addrs.map(|addr| addr.to_string()).collect();
    format!("redlock://{}?{query}", hosts.join(","))
}

pub(crate) async fn lock(locks: &LockClient, key: &str) -> LockGuard {
    locks.lock(key).options(options()).await.expect("a majority grants")
}
