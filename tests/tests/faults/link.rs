//! Links that are cut or silent, and what Redis makes of them.

use tests::proxy::Action;
use tests::redis::RedisServer;
use tests::wait::{eventually, within};

use crate::support::*;

/// F25 (V5, V6): an idle client whose connection was cut listens again by itself, so the next
/// hand-off reaches it without a recheck.
#[tokio::test]
async fn an_idle_client_listens_again_after_a_cut() {
    let server = RedisServer::start();
    let (proxy, locks) = behind_proxy(&server, ms(1_000)).await;
    let channels = server.channels();
    assert_eq!(channels.len(), 1);
    for end in [tests::proxy::Proxy::cut, tests::proxy::Proxy::reset] {
        let before = proxy.counters().connections;
        end(&proxy);
        proxy.wait_until("a new connection", |counters| counters.connections > before).await;
        eventually("the channel again", || server.channels() == channels).await;
    }
    nothing_left(&server, [locks]).await;
}

/// F10 (V3): a renewal that hangs does not hold up those beside it. All that is connected goes
/// silent as the renewal of a lease of 9 s is on its way: one of 0.9 s on the same client is kept.
#[tokio::test]
async fn a_hung_renewal_of_a_long_lease_loses_no_short_one_beside_it() {
    let server = RedisServer::start();
    let (proxy, locks) = behind_proxy(&server, ms(2_000)).await;
    let long = locks.lock("long").lease(ms(9_000)).await.unwrap();
    let short = locks.lock("short").await.unwrap();
    let token = short.token();
    // The first request for it is its renewal, 3 s from here.
    let hung = proxy.trap(call_for("long"), Action::HoldRequest);
    within("the renewal", hung.sprung()).await;
    proxy.silence();
    let before = locks.stats().renewals;
    // Three renewals a lease, and one of the long one.
    eventually("several leases of renewals", || {
        assert!(short.is_held(), "lost after {} renewals", locks.stats().renewals - before);
        locks.stats().renewals >= before + 10
    })
    .await;
    assert_eq!(short.token(), token);
    assert!(long.is_held());
    // A silent connection would keep the server's side open.
    drop((hung, long, short));
    proxy.cut();
    nothing_left(&server, [locks]).await;
}
