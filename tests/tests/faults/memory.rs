//! F28: a server whose memory is full and that evicts nothing.

use tests::redis::RedisServer;
use tests::wait::eventually;

use crate::support::*;

fn fill(server: &RedisServer) {
    server.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    server.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(server.try_command::<()>(&["SET", "probe", "v"]).is_err());
}

fn room(server: &RedisServer) {
    server.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
}

/// F28 (V4, V6, V8): an acquire is `Unavailable` and says why; a lock that is held is renewed and
/// released.
#[tokio::test]
async fn a_full_server_refuses_acquires_and_serves_renewals_and_releases() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(600)).await;
    let guard = locks.lock("k").await.unwrap();
    fill(&server);
    let error = locks.lock("other").wait(ms(200)).await.unwrap_err();
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    assert!(everything(&error).contains("maxmemory"), "{error}");
    let before = locks.stats().renewals;
    eventually("renewals", || locks.stats().renewals >= before + 6).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    assert!(server.key("lock:{k}").is_none());
    room(&server);
    locks.lock("other").await.unwrap().release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F28 (V5, V6): a release while others wait frees the key, though the full server cannot write
/// down a hand-off; a waiter has it once there is room.
#[tokio::test]
async fn a_full_server_serves_the_release_of_a_key_that_others_wait_for() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(30_000)).await;
    let other = connect(&server.url(), ms(30_000)).await;
    let guard = locks.lock("k").await.unwrap();
    let waiting = tokio::spawn(other.lock("k").wait(ms(9_000)).acquire());
    line_of(&server, "k", 1).await;
    fill(&server);
    guard.release().await.unwrap();
    assert!(server.key("lock:{k}").is_none());
    assert!(!waiting.is_finished());
    room(&server);
    waiting.await.unwrap().unwrap().release().await.unwrap();
    nothing_left(&server, [locks, other]).await;
}
