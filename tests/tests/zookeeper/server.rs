//! A server that is killed, started again, and paused.

use std::time::Instant;

use lock_core::{LockGuard, LossReason};
use tests::checker::Checker;
use tests::wait::{eventually, within};
use tokio::task::JoinHandle;

use crate::support::*;

/// F06 (V1, V2, V5, V6), and Curator's own "killed server while waiting": a server that is killed
/// and comes back in time costs nobody anything: the holder holds on, the waiter keeps its place,
/// and has the key by a watch.
#[tokio::test]
async fn a_restart_in_time_is_survived_by_the_holder_and_the_waiter() {
    let (mut server, history) = (Zoo::start().await, History::new());
    let (locks, other) = (connect(&server.at(LONG)).await, connect(&server.at(LONG)).await);
    let (holder, waiter) = (history.actor("holder", &locks), history.actor("waiter", &other));
    let (guard, _) = holder.acquire("k", ms(1_000)).await;
    let guard = guard.unwrap();
    let waiting = tokio::spawn({
        let waiter = waiter.clone();
        async move { waiter.acquire("k", ms(30_000)).await.0 }
    });
    server.watching("k", 2).await;
    let (line, session) = (server.line("k"), server.holder("k"));
    // Not on a thread of the runtime: the clients must go on meanwhile.
    server = tokio::task::spawn_blocking(move || {
        server.restart();
        server
    })
    .await
    .unwrap();
    server.watching("k", 2).await;
    assert_eq!((server.line("k"), server.holder("k")), (line, session));
    let renewals = locks.stats().renewals;
    eventually("a renewal", || locks.stats().renewals > renewals).await;
    assert!(guard.is_held() && holder.write(&guard).await);
    let start = Instant::now();
    holder.release(guard).await.unwrap();
    let next = within("the next", waiting).await.unwrap().unwrap();
    assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
    assert!(waiter.write(&next).await);
    waiter.release(next).await.unwrap();
    assert_eq!(history.check(Checker::new().exclusive()).writes_refused, 0);
    drop((holder, waiter));
    nothing_left(&server, [locks, other]).await;
}

/// F06 (V2, V3, V6): a server that is away for longer than a session can be proved costs the hold,
/// by the holder's own clock; when it is back, the client has a lock under a higher token.
#[tokio::test]
async fn a_holder_is_told_while_its_server_is_away_and_has_the_key_again_when_it_is_back() {
    let mut server = Zoo::start().await;
    let locks = connect(&server.at(SHORT)).await;
    let guard = locks.lock("k").await.unwrap();
    server.kill();
    let start = Instant::now();
    let lost = within("the loss", guard.lost()).await;
    assert!(start.elapsed() < SHORT * 2 / 3 + LATE, "{:?}", start.elapsed());
    assert_eq!(lost.reason(), LossReason::Expired);
    let error = locks.lock("k").wait(ms(300)).await.unwrap_err();
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    let waiting = tokio::spawn(locks.lock("k").wait(ms(30_000)).acquire());
    server = tokio::task::spawn_blocking(move || {
        server.restart();
        server
    })
    .await
    .unwrap();
    let next = within("the next", waiting).await.unwrap().unwrap();
    assert!(next.token() > guard.token());
    assert!(guard.release().await.unwrap_err().is_not_held());
    next.release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F14 (V4, V6, V8): while the server hangs for twice the bound of a request, acquires and
/// releases end within theirs; what it carries out late is withdrawn.
#[tokio::test]
async fn a_server_that_hangs_is_bounded_by_the_budget_and_leaves_no_late_grant() {
    let (server, history) = (Zoo::start().await, History::new());
    let locks = connect(&server.at(LONG)).await;
    let held = locks.lock("held").await.unwrap();
    let (first, second) = (history.actor("first", &locks), history.actor("second", &locks));
    server.pause();
    let release: JoinHandle<_> = tokio::spawn(held.release());
    let (one, other) = tokio::join!(first.acquire("a", REQUEST), second.acquire("b", ms(300)));
    for (answer, _) in [one, other] {
        let error = answer.map(|guard: LockGuard| guard.token()).unwrap_err();
        assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    }
    // The bound of a request for the second time.
    assert!(second.acquire("b", REQUEST).await.0.is_err());
    let start = Instant::now();
    let error = within("the release", release).await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && start.elapsed() < SLACK, "{error}");
    server.resume();
    eventually("no key is busy", || locks.stats().keys == 0).await;
    for key in ["a", "b", "held"] {
        the_next_one_proceeds(&server, key).await;
    }
    // The server's clock ran on, so whether the session lives is its own to say.
    history.check(Checker::new());
    drop((first, second));
    nothing_left(&server, [locks]).await;
}

/// F14 (V1, V2, V3): a server that hangs past the session: who held is told by its own clock, and
/// nobody else is granted before.
#[tokio::test]
async fn a_holder_is_told_while_its_server_hangs() {
    let (server, history) = (Zoo::start().await, History::new());
    let (locks, other) = (connect(&server.at(SHORT)).await, connect(&server.at(LONG)).await);
    let (holder, rival) = (history.actor("holder", &locks), history.actor("rival", &other));
    let (guard, _) = holder.acquire("k", ms(1_000)).await;
    let guard = guard.unwrap();
    let waiting = tokio::spawn({
        let rival = rival.clone();
        async move { rival.acquire("k", ms(9_000)).await.0 }
    });
    server.watching("k", 2).await;
    server.pause();
    let start = Instant::now();
    holder.lost(&guard).await;
    assert!(start.elapsed() < SHORT * 2 / 3 + LATE, "{:?}", start.elapsed());
    assert!(!waiting.is_finished());
    server.resume();
    assert!(holder.release(guard).await.unwrap_err().is_not_held());
    let next = within("the rival", waiting).await.unwrap().unwrap();
    rival.release(next).await.unwrap();
    history.check(Checker::new().exclusive());
    drop((holder, rival));
    nothing_left(&server, [locks, other]).await;
}
