//! Waiters that are killed, and waiters that are many.

use lock_core::Key;
use lock_core::backend::{Attempt, Backend, Claim, ClaimId, Terms};
use lock_core::zookeeper::ZooKeeper;
use tests::proxy::Proxy;
use tests::wait::eventually;

use crate::support::*;

/// F04 (V5): while waiters in the middle of the line die, nobody but the one behind them is
/// woken, and it is not granted what is still held.
#[tokio::test]
async fn the_death_of_a_waiter_wakes_the_one_behind_it_and_grants_nothing() {
    let (server, history) = (Zoo::start().await, History::new());
    let holder = connect(&server.at(LONG)).await;
    let guard = holder.lock("k").await.unwrap();
    let mut doomed = history.worker("doomed", &server.at(LONG), LEASE);
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
    let (before, start) = (proxy.counters(), std::time::Instant::now());
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
    // Each session is kept up meanwhile.
    let beats = CLIENTS as u64 * (start.elapsed().as_secs() / 3 + 1);
    assert!(asked <= 14 * CLIENTS as u64 + beats, "{asked} requests for {CLIENTS} grants");
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), CLIENTS);
    nothing_left(&server, [holder]).await;
}

/// V2: the word of a watch can be lost with a link. So whoever waits reads the line again whenever
/// it was told to ask again, also where its lease has it ask more often than the session does.
#[tokio::test]
async fn a_waiter_that_asks_again_reads_the_line_though_its_watch_stands() {
    let server = Zoo::start().await;
    let store = ZooKeeper::connect(&server.at(LONG)).await.unwrap();
    let key = Key::new("k").unwrap();
    let claim = |lease| {
        let id = ClaimId::from_bits(fastrand::u128(..));
        store.claim(&key, id, Terms::exclusive(lease))
    };
    let (mut holder, mut waiter) = (claim(LEASE), claim(ms(3_000)));
    assert!(matches!(holder.attempt().await, Ok(Attempt::Granted(_))));
    for _ in 0..2 {
        let answer = waiter.attempt().await;
        let Ok(Attempt::Blocked { recheck, .. }) = answer else { panic!("{answer:?}") };
        assert_eq!(recheck, ms(1_000));
        tokio::time::sleep(recheck).await;
        let before = store.requests();
        assert!(matches!(waiter.attempt().await, Ok(Attempt::Blocked { .. })));
        assert!(store.requests() > before, "it was answered from memory");
    }
    drop((holder, waiter));
    eventually("both have left", || server.line("k").is_empty()).await;
}
