//! Waiters that are killed, and waiters that are many.

use std::time::{Duration, Instant};

use tests::checker::Checker;
use tests::proxy::Proxy;
use tests::wait::eventually;

use crate::support::*;

/// `dead` waiters stand in line and are killed, and a live one comes behind them. How long it
/// takes from their death to its grant; the holder releases while their nodes are there still.
async fn delay_behind(dead: usize) -> Duration {
    let (server, history) = (Zoo::start().await, History::new());
    let locks = connect(&server.at(LONG)).await;
    let holder = history.actor("holder", &locks);
    let (guard, _) = holder.acquire("k", ms(1_000)).await;
    let mut crowd = history.worker("crowd", &server.at(SHORT));
    assert!(crowd.ask(&format!("flood k {dead} 60000")).await.ok);
    server.line_of("k", dead + 1).await;
    let other = connect(&server.at(LONG)).await;
    let next = history.actor("next", &other);
    let waiting = tokio::spawn({
        let next = next.clone();
        async move { next.acquire("k", ms(9_000)).await.0 }
    });
    server.line_of("k", dead + 2).await;
    crowd.kill();
    let start = Instant::now();
    holder.release(guard.unwrap()).await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    let took = start.elapsed();
    next.release(guard).await.unwrap();
    assert_eq!(history.check(Checker::new().exclusive()).grants, 2);
    drop((holder, next));
    nothing_left(&server, [locks, other]).await;
    took
}

/// F04 (V2, V4, V5, V6): killed waiters cost one session end together, however many they are.
/// Also "a fair queue blocked by a dead head".
#[tokio::test]
async fn killed_waiters_cost_one_session_end_together() {
    for dead in [1, 25] {
        let took = delay_behind(dead).await;
        assert!(took < SHORT + TICK * 2 + SLACK, "{dead} dead waiters: {took:?}");
    }
}

/// F04 (V5): while waiters in the middle of the line die, nobody but the one behind them is
/// woken, and it is not granted what is still held.
#[tokio::test]
async fn the_death_of_a_waiter_wakes_the_one_behind_it_and_grants_nothing() {
    let (server, history) = (Zoo::start().await, History::new());
    let holder = connect(&server.at(LONG)).await;
    let guard = holder.lock("k").await.unwrap();
    let mut doomed = history.worker("doomed", &server.at(LONG));
    doomed.send("acquire k 60000");
    server.line_of("k", 2).await;
    let doomed_session = server
        .sessions()
        .into_iter()
        .find(|session| session.ephemerals.iter().any(|path| path.ends_with(&server.line("k")[1])));
    let (proxy, waiter) = behind_proxy(&server, LONG).await;
    let (last_proxy, last) = behind_proxy(&server, LONG).await;
    let waiting = tokio::spawn(waiter.lock("k").acquire());
    server.line_of("k", 3).await;
    let at_last = tokio::spawn(last.lock("k").acquire());
    server.line_of("k", 4).await;
    server.watching("k", 4).await;
    doomed.kill();
    server.expire_session(doomed_session.expect("its session").id);
    proxy.wait_until("the notification", |seen| seen.pushes == 1).await;
    server.watching("k", 3).await;
    guard.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!((proxy.counters().pushes, last_proxy.counters().pushes), (2, 0));
    guard.release().await.unwrap();
    at_last.await.unwrap().unwrap().release().await.unwrap();
    nothing_left(&server, [holder, waiter, last]).await;
}

/// F26 (V5, V6): with 150 clients in line, a release wakes one of them: each waiter is told once,
/// of its own predecessor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_one_of_many_waiters() {
    const CLIENTS: usize = 150;
    let server = Zoo::start().await;
    let proxy = Proxy::zookeeper(server.addr());
    let holder = connect(&server.at(LONG)).await;
    let held = holder.lock("k").await.unwrap();
    let mut waiting = Vec::new();
    let url = with_session(&proxy.url(), LONG);
    for _ in 0..CLIENTS {
        let locks = connect(&url).await;
        waiting.push(tokio::spawn(async move {
            let guard = locks.lock("k").wait(ms(60_000)).await.unwrap();
            let token = guard.token();
            guard.release().await.unwrap();
            token
        }));
    }
    server.line_of("k", CLIENTS + 1).await;
    eventually("all watch", || server.watches() >= CLIENTS as u64).await;
    let before = proxy.counters();
    held.release().await.unwrap();
    let mut tokens = Vec::new();
    for waiter in waiting {
        tokens.push(waiter.await.unwrap());
    }
    let after = proxy.counters();
    // One of the predecessor each, and of those that become holders one of their own end or of
    // the line behind them.
    let told = after.pushes - before.pushes;
    assert!(told <= 3 * CLIENTS as u64, "{told} notifications for {CLIENTS} waiters");
    let asked = after.requests - before.requests;
    assert!(asked <= 14 * CLIENTS as u64, "{asked} requests for {CLIENTS} grants");
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), CLIENTS);
    nothing_left(&server, [holder]).await;
}
