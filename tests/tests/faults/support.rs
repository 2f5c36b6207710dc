//! Helpers that the tests of this binary share.

use std::time::Duration;

use lock_core::LockClient;
use tests::proxy::{Match, Proxy};
use tests::redis::RedisServer;
pub(crate) use tests::support::*;
use tests::wait::eventually;

pub(crate) const WORKER: &str = env!("CARGO_BIN_EXE_worker");

/// A client behind a proxy of its own, for which the server knows every script already.
pub(crate) async fn behind_proxy(server: &RedisServer, lease: Duration) -> (Proxy, LockClient) {
    let proxy = Proxy::start(server.addr());
    let others = server.channels().len();
    let locks = connect(&proxy.url(), lease).await;
    let held = locks.lock("warm-up").await.expect("a free key");
    let rival = connect(&server.url(), lease).await;
    assert!(rival.lock("warm-up").try_acquire().await.expect("an answer").is_none());
    held.release().await.expect("a release");
    drop(rival);
    eventually("the rival is gone", || server.channels().len() <= others + 1).await;
    (proxy, locks)
}

/// The next call of a script for `key` that the server knows.
pub(crate) fn call_for(key: &str) -> Match {
    Match::verb("EVALSHA").containing(format!("lock:{{{key}}}"))
}

/// The highest token that the server gave; of the slot of `key` where it is a node of a cluster.
pub(crate) fn fence(server: &RedisServer, key: &str) -> Option<u64> {
    server.highest_token(&format!("lock:{{{key}}}"))
}

/// How many claims stand in the line for `key`.
pub(crate) fn in_line(server: &RedisServer, key: &str) -> u64 {
    server.command(&["LLEN", &format!("lock:{{{key}}}:queue")])
}

/// Waits until `n` claims stand in the line for `key`.
pub(crate) async fn line_of(server: &RedisServer, key: &str, n: u64) {
    eventually(&format!("{n} claims in line"), || in_line(server, key) == n).await;
}

/// V6: of these clients, and of all other processes, no key busy, no waiter, no connection, no
/// subscription and no task is left, and at the server only the clock.
///
/// Tests that call it have joined the tasks of their own.
pub(crate) async fn nothing_left(
    server: &RedisServer,
    clients: impl IntoIterator<Item = LockClient>,
) {
    tests::support::nothing_left(clients, || server.left_by_locks()).await;
}
