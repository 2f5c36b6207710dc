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
    let locks = connect(&server.url(), ms(6_000)).await;
    let guard = locks.lock("k").await.unwrap();
    fill(&server);
    let error = locks.lock("other").wait(ms(200)).await.unwrap_err();
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    assert!(everything(&error).contains("maxmemory"), "{error}");
    let before = locks.stats().renewals;
    eventually("renewals", || locks.stats().renewals >= before + 2).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    assert!(server.key("lock:{k}").is_none());
    room(&server);
    locks.lock("other").await.unwrap().release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F28 (V3): a hold behind which a waiter has left is renewed by a full server, and so are those
/// that are renewed with it.
#[tokio::test]
async fn a_full_server_renews_a_hold_behind_which_a_waiter_has_left() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(6_000)).await;
    let other = connect(&server.url(), ms(2_000)).await;
    let guards = [locks.lock("a").await.unwrap(), locks.lock("k").await.unwrap()];
    let leaves = other.lock("k").wait(ms(3_000)).await;
    assert!(leaves.unwrap_err().is_timeout());
    line_of(&server, "k", 0).await;
    fill(&server);
    let before = locks.stats().renewals;
    eventually("renewals", || locks.stats().renewals >= before + 4).await;
    assert!(guards.iter().all(|guard| guard.is_held()));
    room(&server);
    for guard in guards {
        guard.release().await.unwrap();
    }
    nothing_left(&server, [locks, other]).await;
}

/// F28 (V5, V6): a release while others wait hands the key on although the server is full: its
/// script takes its own place off first, and one that has written may write on.
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
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert!(server.key("lock:{k}").is_none());
    room(&server);
    nothing_left(&server, [locks, other]).await;
}
