//! A link that is cut, and the places in a line that outlive it.

use tests::proxy::Proxy;
use tests::stalls::Stopwatch;
use tests::wait::eventually;

use crate::support::*;

/// F25 (V5, V6): a waiter whose connection was cut has its place and its watch again at once:
/// the release reaches it long before the next recheck.
#[tokio::test]
async fn a_waiter_whose_connection_was_cut_watches_again_and_is_granted_by_the_watch() {
    let server = Zoo::start().await;
    for end in [Proxy::cut, Proxy::reset] {
        let (proxy, waiter) = behind_proxy(&server, LONG).await;
        let holder = connect(&server.at(LONG)).await;
        let held = holder.lock("k").await.unwrap();
        let waiting = tokio::spawn(waiter.lock("k").acquire());
        server.watching("k", 2).await;
        let (line, connections) = (server.line("k"), proxy.counters().connections);
        end(&proxy);
        proxy.wait_until("a new connection", |seen| seen.connections > connections).await;
        eventually("all are connected", || server.sessions().iter().all(|s| s.connected)).await;
        server.watching("k", 2).await;
        assert_eq!(server.line("k"), line, "nobody lost a place");
        let start = Stopwatch::start();
        held.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        assert!(start.own() < SLACK, "{:?}", start.elapsed());
        guard.release().await.unwrap();
        nothing_left(&server, [waiter, holder]).await;
    }
}
