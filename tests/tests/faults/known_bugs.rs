//! Bugs that other lock libraries had, and that only Redis can have; the others are scenes.

use std::time::Instant;

use tests::redis::{KeyInfo, RedisServer};
use tests::wait::eventually;

use crate::support::*;

/// "A fair queue spinning on a dead head" (V5): a waiter behind a dead one asks at its recheck,
/// not in a row.
#[tokio::test]
async fn a_waiter_behind_a_dead_one_asks_at_its_recheck_only() {
    let (server, history) = (RedisServer::start(), History::new());
    let holder = connect(&server.url(), ms(6_000)).await;
    let waiter = connect(&server.url(), ms(30_000)).await;
    let guard = holder.lock("k").await.unwrap();
    let mut dead = history.worker("dead", &server.url(), ms(30_000));
    dead.send("acquire k 20000");
    line_of(&server, "k", 1).await;
    dead.kill();
    let waiting = tokio::spawn(waiter.lock("k").wait(ms(60_000)).acquire());
    line_of(&server, "k", 2).await;
    let (asked, begun) = (waiter.stats().store_requests, Instant::now());
    let renewals = holder.stats().renewals;
    eventually("a lease has passed", || holder.stats().renewals >= renewals + 3).await;
    let asked = waiter.stats().store_requests - asked;
    let rechecks = begun.elapsed().as_millis() as u64 / 500 + 1;
    assert!((1..=rechecks * 2).contains(&asked), "{asked} requests in {rechecks} rechecks");
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    nothing_left(&server, [holder, waiter]).await;
}

/// "Fence counters that never expire" (V6): every key of a lock has a TTL from its first write on,
/// and none outlives the lock.
#[tokio::test]
async fn every_key_expires_from_its_first_write_on() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(5_000)).await;
    let other = connect(&server.url(), ms(5_000)).await;
    let guard = locks.lock("k").await.unwrap();
    let waiting = tokio::spawn(other.lock("k").acquire());
    line_of(&server, "k", 1).await;
    let ttl = |suffix: &str| {
        let name = format!("lock:{{k}}{suffix}");
        let key = server.key(&name).unwrap_or_else(|| panic!("{name} is not there"));
        key.ttl_ms.unwrap_or_else(|| panic!("{name} never expires"))
    };
    assert!(ttl("") <= 5_000);
    assert!(ttl(":queue") <= 15_000 && ttl(":due") <= 15_000);
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(ttl("") <= 5_000);
    guard.release().await.unwrap();
    assert!(server.keys().iter().all(KeyInfo::is_clock));
    nothing_left(&server, [locks, other]).await;
}

/// "Fence counters that never expire" (V2): a token that is given after the clock of the server was
/// deleted by hand is higher than the last one.
#[tokio::test]
async fn a_token_after_the_clock_was_deleted_is_higher_than_the_last() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(5_000)).await;
    let mut last = None;
    for _ in 0..20 {
        let guard = locks.lock("k").await.unwrap();
        assert!(last < Some(guard.token()));
        last = Some(guard.token());
        guard.release().await.unwrap();
        assert_eq!(server.command::<u64>(&["DEL", "lock:clock"]), 1);
    }
    nothing_left(&server, [locks]).await;
}

/// "One subscription per key until the limit" (V6): a client has one channel and two connections,
/// whatever it holds and waits for.
#[tokio::test]
async fn a_client_has_one_channel_however_many_keys_it_holds_and_waits_for() {
    let server = RedisServer::start();
    let holder = connect(&server.url(), ms(6_000)).await;
    let waiter = connect(&server.url(), ms(6_000)).await;
    let (mut guards, mut waiting) = (Vec::new(), Vec::new());
    for n in 0..200 {
        guards.push(holder.lock(format!("k:{n}")).await.unwrap());
        waiting.push(tokio::spawn(waiter.lock(format!("k:{n}")).wait(ms(20_000)).acquire()));
    }
    eventually("all wait", || (0..200).all(|n| in_line(&server, &format!("k:{n}")) == 1)).await;
    eventually("renewals", || holder.stats().renewals >= 200).await;
    assert_eq!(server.channels().len(), 2);
    let clients = server.clients();
    assert!(clients.len() <= 4, "{clients:?}");
    assert_eq!(clients.iter().map(|client| client.subscriptions()).sum::<u64>(), 2);
    for guard in guards {
        guard.release().await.unwrap();
    }
    for waiter in waiting {
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
    nothing_left(&server, [holder, waiter]).await;
}
