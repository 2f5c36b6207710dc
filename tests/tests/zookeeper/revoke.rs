//! Being asked to give way.

use std::time::Instant;

use tests::wait::{eventually, within};

use crate::support::*;

/// V3, V6: a holder that was asked to give way and does not is a holder like any other: it keeps
/// the key, renews at its times, and asks nothing in a row.
#[tokio::test]
async fn a_holder_that_ignores_a_request_to_give_way_asks_at_its_renewals_only() {
    let server = Zoo::start().await;
    let locks = connect(&server.at(STEADY)).await;
    let rival = connect(&server.at(LONG)).await;
    let guard = locks.lock("k").await.unwrap();
    assert!(rival.request_revoke("k").await.unwrap());
    within("the request", guard.revoke_requested()).await;
    let (stats, start) = (locks.stats(), Instant::now());
    eventually("renewals", || locks.stats().renewals >= stats.renewals + 6).await;
    let (now, took) = (locks.stats(), start.elapsed());
    // A session is good for two fifths of its timeout at least, and is renewed at a third of that.
    assert!(took > STEADY / 2, "six renewals took {took:?}");
    let asked = now.store_requests - stats.store_requests;
    assert!(asked < 40, "{asked} requests in {took:?}");
    assert!(guard.is_held() && guard.is_revoke_requested());
    guard.release().await.unwrap();
    nothing_left(&server, [locks, rival]).await;
}

/// V5, V6: a request whose notification is lost reaches the holder all the same once others wait,
/// as the holder looks at its line then.
#[tokio::test]
async fn a_request_to_give_way_whose_notification_is_lost_is_found_at_a_renewal() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, STEADY).await;
    let rival = connect(&server.at(LONG)).await;
    let guard = locks.lock("k").await.unwrap();
    let waiting = tokio::spawn(rival.lock("k").acquire());
    server.watching("k", 2).await;
    let renewals = locks.stats().renewals;
    eventually("it knows of the waiter", || locks.stats().renewals > renewals).await;
    proxy.drop_pushes(true);
    assert!(rival.request_revoke("k").await.unwrap());
    within("the request", guard.revoke_requested()).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    nothing_left(&server, [locks, rival]).await;
}
