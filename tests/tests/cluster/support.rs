//! Helpers that the tests of this binary share.

use lock_core::LockClient;
use tests::redis::{RedisCluster, RedisServer};
pub(crate) use tests::support::*;
use tests::wait::eventually;

pub(crate) const WORKER: &str = env!("CARGO_BIN_EXE_worker");

/// The highest token that the server gave; of the slot of `key` where it is a node of a cluster.
pub(crate) fn fence(server: &RedisServer, key: &str) -> Option<u64> {
    server.highest_token(&format!("lock:{{{key}}}"))
}

/// Waits until `n` claims stand in the line for `key`.
pub(crate) async fn line_of(cluster: &RedisCluster, key: &str, n: u64) {
    let queue = format!("lock:{{{key}}}:queue");
    eventually(&format!("{n} claims in line"), || {
        cluster.server_of(key).try_command::<u64>(&["LLEN", &queue]).is_ok_and(|len| len == n)
    })
    .await;
}

/// All that is left at the masters that run, beyond the clocks.
pub(crate) fn left_at(cluster: &RedisCluster) -> Vec<String> {
    let mut left: Vec<_> =
        cluster.masters().into_iter().flat_map(RedisServer::left_by_locks).collect();
    // Those of clients are told of by the others.
    left.retain(|one| !one.starts_with("ClientInfo"));
    left
}

/// V6: of these clients, and of all other processes, no key busy, no waiter, no connection, no
/// subscription and no task is left, and at the nodes only the clocks.
///
/// Tests that call it have joined the tasks of their own.
pub(crate) async fn nothing_left(
    cluster: &RedisCluster,
    clients: impl IntoIterator<Item = LockClient>,
) {
    let running = || cluster.nodes().iter().filter(|node| node.is_running());
    let connected = |node: &RedisServer| {
        node.clients().into_iter().filter(|one| one.field("resp") == Some("3"))
    };
    tests::support::nothing_left(clients, || {
        let clients = running().flat_map(connected).map(|client| format!("{client:?}"));
        left_at(cluster).into_iter().chain(clients).collect()
    })
    .await;
}
