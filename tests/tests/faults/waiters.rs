//! Waiters that are stopped and killed.

use std::time::{Duration, Instant};

use tests::checker::Checker;
use tests::redis::RedisServer;
use tests::wait::eventually;

use crate::support::*;

/// `dead` waiters stand in line, are killed or frozen, and a live one comes behind them. How long
/// it takes from the release to its grant; the lease is 30 s.
async fn delay_behind(dead: u64, killed: bool) -> Duration {
    let (server, history) = (RedisServer::start(), History::new());
    let locks = connect(&server.url(), ms(30_000)).await;
    let holder = history.actor("holder", &locks, &server);
    let (guard, _) = holder.acquire("k", ms(1_000)).await;
    let mut crowd = history.worker("crowd", &server.url(), &server, 30_000);
    assert!(crowd.ask(&format!("flood k {dead} 60000")).await.ok);
    line_of(&server, "k", dead).await;
    match killed {
        true => crowd.kill(),
        false => crowd.freeze(),
    }
    let other = connect(&server.url(), ms(30_000)).await;
    let next = history.actor("next", &other, &server);
    let waiting = tokio::spawn({
        let next = next.clone();
        async move { next.acquire("k", ms(10_000)).await.0 }
    });
    line_of(&server, "k", dead + 1).await;
    if killed {
        eventually("the server knows of the deaths", || server.channels().len() == 2).await;
    }
    let start = Instant::now();
    holder.release(guard.unwrap()).await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    let took = start.elapsed();
    next.release(guard).await.unwrap();
    crowd.kill();
    assert_eq!(history.check(Checker::new().exclusive()).grants, 2);
    drop((holder, next));
    nothing_left(&server, [locks, other]).await;
    took
}

/// F04 (V2, V4, V5, V6): killed waiters are skipped at once, however many they are and however
/// long the lease is. Also "a fair queue blocked by a dead head".
#[tokio::test]
async fn killed_waiters_are_skipped_however_many_they_are() {
    for dead in [1, 100] {
        let took = delay_behind(dead, true).await;
        // Nobody listens for them, so not even the claim lease of one is waited for.
        assert!(took < CLAIM_LEASE * 2 / 3, "{dead} dead waiters: {took:?}");
    }
}

/// F04 (V2, V4, V5, V6): the same of waiters that are stopped, whose connections still listen.
#[tokio::test]
async fn frozen_waiters_cost_one_deadline_together() {
    let took = delay_behind(40, false).await;
    assert!(took < CLAIM_LEASE + RECHECK + SLACK, "{took:?}");
}

/// F04 (V1, V2, V6): a waiter that was stopped when the key was handed to it, and goes on after
/// that grant has ended, does not take the stale push for a grant.
#[tokio::test]
async fn a_thawed_waiter_does_not_use_a_grant_that_has_ended() {
    let (server, history) = (RedisServer::start(), History::new());
    let locks = connect(&server.url(), ms(600)).await;
    let other = connect(&server.url(), ms(600)).await;
    let first = history.actor("first", &locks, &server);
    let second = history.actor("second", &other, &server);
    let (guard, _) = first.acquire("k", ms(1_000)).await;
    let mut frozen = history.worker("frozen", &server.url(), &server, 600);
    frozen.send("acquire k 20000");
    line_of(&server, "k", 1).await;
    frozen.freeze();
    first.release(guard.unwrap()).await.unwrap();
    let (guard, _) = second.acquire("k", ms(9_000)).await;
    let guard = guard.unwrap();
    frozen.thaw();
    assert!(second.write(&guard).await);
    line_of(&server, "k", 1).await;
    let token = guard.token().get();
    second.release(guard).await.unwrap();
    assert!(frozen.reply().await.token() > token);
    assert!(frozen.ask("write").await.accepted());
    assert!(frozen.ask("release").await.ok);
    frozen.send("exit");
    frozen.ended().await;
    let report = history.check(Checker::new().exclusive());
    assert_eq!((report.grants, report.writes_refused), (3, 0));
    drop((first, second));
    nothing_left(&server, [locks, other]).await;
}
