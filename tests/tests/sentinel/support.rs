//! Helpers that the tests of this binary share.

use std::time::Duration;

use lock_core::LockClient;
pub(crate) use tests::redis::{RedisServer, SentinelOptions, SentinelSet};
pub(crate) use tests::support::*;
pub(crate) use tests::wait::{eventually, within};
use tokio::sync::{Semaphore, SemaphorePermit};

/// A switch is followed within this.
pub(crate) const FOLLOWED_WITHIN: Duration = Duration::from_secs(1);

/// Six servers each: more sets at once and a starved sentinel takes a live master for dead.
static SETS: Semaphore = Semaphore::const_new(2);

/// A set of a test's own, and its turn.
pub(crate) async fn a_set() -> (SemaphorePermit<'static>, SentinelSet) {
    a_set_with(SentinelOptions::default()).await
}

pub(crate) async fn a_set_with(
    options: SentinelOptions,
) -> (SemaphorePermit<'static>, SentinelSet) {
    let turn = SETS.acquire().await.expect("never closed");
    (turn, SentinelSet::with(options).await)
}

/// The same where a server is to die.
pub(crate) async fn a_hasty_set() -> (SemaphorePermit<'static>, SentinelSet) {
    a_set_with(SentinelOptions::default().hasty()).await
}

/// The options of a set whose replicas can be cut off from their master: they log in there.
pub(crate) fn to_cut() -> SentinelOptions {
    SentinelOptions::default().passwords(SERVER_PASSWORD, SENTINEL_PASSWORD)
}

pub(crate) const SERVER_PASSWORD: &str = "of-the-servers";
pub(crate) const SENTINEL_PASSWORD: &str = "of-the-sentinels";

/// Cuts the replicas off: what is written from now on does not reach them.
pub(crate) async fn cut(set: &SentinelSet, master: usize) {
    for replica in set.others(master) {
        set.server(replica).command::<()>(&["CONFIG", "SET", "masterauth", "wrong"]);
    }
    set.server(master).command::<()>(&["CLIENT", "KILL", "TYPE", "replica"]);
    eventually("no replica is left", || {
        let info: String = set.server(master).command(&["INFO", "replication"]);
        info.contains("connected_slaves:0")
    })
    .await;
}

/// Lets them come back, to whoever is their master now.
pub(crate) fn heal(set: &SentinelSet, replicas: &[usize]) {
    for replica in replicas {
        set.server(*replica).command::<()>(&["CONFIG", "SET", "masterauth", SERVER_PASSWORD]);
    }
}

/// Whether a server has a connection of a lock client. The fixture and the servers among
/// themselves speak RESP2.
pub(crate) fn has_clients(server: &RedisServer) -> bool {
    server.clients().iter().any(|one| one.field("resp") == Some("3"))
}

/// How many lock clients a server pushes to.
pub(crate) fn listeners(server: &RedisServer) -> usize {
    let clients = server.clients();
    let ours = clients.iter().filter(|one| one.field("resp") == Some("3"));
    ours.filter(|one| one.subscriptions() > 0).count()
}

/// V6: of these clients nothing is left, no task, no connection, no waiter.
pub(crate) async fn nothing_left(
    set: &SentinelSet,
    servers: &[usize],
    clients: impl IntoIterator<Item = LockClient>,
) {
    let connected = |server: &&usize| has_clients(set.server(**server));
    let left = || servers.iter().filter(connected).map(|server| format!("clients at {server}"));
    tests::support::nothing_left(clients, || left().collect()).await;
}
