//! A server that is started again in time.

use tests::checker::Checker;
use tests::stalls::Stopwatch;
use tests::wait::{eventually, within};

use crate::support::*;

/// F06 (V1, V2, V5, V6), and Curator's own "killed server while waiting": a server that is killed
/// and comes back in time costs nobody anything: the holder holds on, the waiter keeps its place,
/// and has the key by a watch.
#[tokio::test]
async fn a_restart_in_time_is_survived_by_the_holder_and_the_waiter() {
    let (mut server, history) = (Zoo::start().await, History::new());
    let (locks, other) = (connect(&server.at(LONG)).await, connect(&server.at(LONG)).await);
    let (holder, waiter) = (history.actor("holder", &locks), history.actor("waiter", &other));
    let (guard, _) = holder.acquire("k", ms(9_000)).await;
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
    let start = Stopwatch::start();
    holder.release(guard).await.unwrap();
    let next = within("the next", waiting).await.unwrap().unwrap();
    assert!(start.own() < LONG / 3, "{:?}", start.elapsed());
    assert!(waiter.write(&next).await);
    waiter.release(next).await.unwrap();
    assert_eq!(history.check(Checker::new().exclusive()).writes_refused, 0);
    drop((holder, waiter));
    nothing_left(&server, [locks, other]).await;
}
