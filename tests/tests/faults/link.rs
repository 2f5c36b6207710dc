//! Links that are silent, slow or cut.

use std::time::Instant;

use lock_core::{LossReason, ReleaseError};
use tests::checker::Checker;
use tests::proxy::{Action, Direction, Flow};
use tests::redis::RedisServer;
use tests::wait::{eventually, within};

use crate::support::*;

/// F10 (V1, V2, V3, V6): without any packet a holder is told at the end of its lease, before the
/// store grants the key to another.
#[tokio::test]
async fn a_holder_behind_a_black_hole_is_told_by_its_own_clock_before_another_is_granted() {
    let (server, history) = (RedisServer::start(), History::new());
    let (proxy, locks) = behind_proxy(&server, ms(900)).await;
    let other = connect(&server.url(), ms(900)).await;
    let holder = history.actor("holder", &locks, &server);
    let rival = history.actor("rival", &other, &server);
    let (guard, _) = holder.acquire("k", ms(1_000)).await;
    let guard = guard.unwrap();
    proxy.black_hole();
    let left = guard.lease_left();
    let start = Instant::now();
    let waiting = tokio::spawn({
        let rival = rival.clone();
        async move { rival.acquire("k", ms(5_000)).await.0 }
    });
    let lost = holder.lost(&guard).await;
    // A renewal that was answered just before the hole may have begun the lease anew.
    assert!(start.elapsed() < left.max(ms(900)) + SLACK, "{:?}", start.elapsed());
    assert_eq!((lost.reason(), lost.token()), (LossReason::Expired, guard.token()));
    assert!(!guard.is_held());
    let next = within("the rival", waiting).await.unwrap().unwrap();
    assert!(next.token() > guard.token());
    assert!(rival.write(&next).await && !holder.write(&guard).await);
    assert!(holder.release(guard).await.unwrap_err().is_not_held());
    rival.release(next).await.unwrap();
    history.check(Checker::new().exclusive());
    proxy.resume();
    drop((holder, rival));
    nothing_left(&server, [locks, other]).await;
}

/// F10 (V6, V8): a release into a black hole ends within the operation's 2 s and says that its
/// outcome is not known; it goes on, and frees the key long before the lease ends.
#[tokio::test]
async fn a_release_into_a_black_hole_says_that_it_does_not_know_and_goes_on() {
    let server = RedisServer::start();
    let (proxy, locks) = behind_proxy(&server, ms(30_000)).await;
    let guard = locks.lock("k").await.unwrap();
    proxy.black_hole();
    let start = Instant::now();
    let error = guard.release().await.unwrap_err();
    assert!(start.elapsed() < ms(2_000) + SLACK, "{:?}", start.elapsed());
    assert!(matches!(error, ReleaseError::Unavailable(_)), "{error:?}");
    assert!(server.key("lock:{k}").is_some());
    proxy.resume();
    eventually("the key is free", || server.key("lock:{k}").is_none()).await;
    nothing_left(&server, [locks]).await;
}

/// F10 (V4, V6, V8): an acquire into a black hole ends with its budget, as `Unavailable` and not
/// as `Timeout`; when the link is back, its late grant is withdrawn.
#[tokio::test]
async fn an_acquire_into_a_black_hole_ends_with_its_budget_and_leaves_no_grant() {
    let (server, history) = (RedisServer::start(), History::new());
    let (proxy, locks) = behind_proxy(&server, ms(30_000)).await;
    let actor = history.actor("a", &locks, &server);
    proxy.set(Direction::ToServer, Flow::BlackHole);
    let (answer, _) = actor.acquire("k", ms(300)).await;
    let error = answer.unwrap_err();
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    let seen = proxy.counters().replies;
    proxy.resume();
    proxy.wait_until("the late answer", |counters| counters.replies > seen).await;
    history.check(Checker::new());
    drop(actor);
    nothing_left(&server, [locks]).await;
}

/// F10 (V3, V6): round trips of 80 ms, and the several that a connection needs at first, cost no
/// hold of 900 ms.
#[tokio::test]
async fn a_slow_link_is_not_a_broken_one() {
    let server = RedisServer::start();
    let (proxy, locks) = behind_proxy(&server, ms(900)).await;
    proxy.set(Direction::ToServer, Flow::Delay(ms(40)));
    proxy.set(Direction::ToClient, Flow::Delay(ms(40)));
    let guard = locks.lock("k").await.unwrap();
    // Past the first lease.
    eventually("renewals", || locks.stats().renewals >= 6).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    proxy.resume();
    nothing_left(&server, [locks]).await;
}

/// F25 (V5, V6): a waiter whose push is lost finds its grant by asking again.
#[tokio::test]
async fn a_waiter_whose_push_is_lost_is_granted_by_its_recheck() {
    let server = RedisServer::start();
    let (proxy, waiter) = behind_proxy(&server, ms(30_000)).await;
    let holder = connect(&server.url(), ms(30_000)).await;
    let held = holder.lock("k").await.unwrap();
    proxy.drop_pushes(true);
    let waiting = tokio::spawn(waiter.lock("k").acquire());
    line_of(&server, "k", 1).await;
    let start = Instant::now();
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(start.elapsed() < RECHECK + SLACK, "{:?}", start.elapsed());
    assert!(proxy.counters().pushes_dropped > 0, "nothing was lost");
    guard.release().await.unwrap();
    nothing_left(&server, [waiter, holder]).await;
}

/// F25 (V5, V6): a waiter whose connection is cut and kept out for a while is back in line, with
/// one subscription, once it is let in; the key does not wait for it meanwhile.
#[tokio::test]
async fn a_waiter_whose_connection_was_cut_subscribes_again_and_is_granted() {
    let server = RedisServer::start();
    let (proxy, waiter) = behind_proxy(&server, ms(30_000)).await;
    let holder = connect(&server.url(), ms(30_000)).await;
    let held = holder.lock("k").await.unwrap();
    let waiting = tokio::spawn(waiter.lock("k").wait(ms(9_000)).acquire());
    line_of(&server, "k", 1).await;
    proxy.refuse();
    eventually("its channel is gone", || server.channels().len() == 1).await;
    held.release().await.unwrap();
    assert!(server.key("lock:{k}").is_none(), "nobody listens, so the key is free");
    let start = Instant::now();
    proxy.resume();
    let guard = waiting.await.unwrap().unwrap();
    // The pauses between connects are 1 s at most.
    assert!(start.elapsed() < ms(1_000) + RECHECK + SLACK, "{:?}", start.elapsed());
    assert_eq!(server.channels().len(), 2);
    guard.release().await.unwrap();
    nothing_left(&server, [waiter, holder]).await;
}

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
    let (proxy, locks) = behind_proxy(&server, ms(900)).await;
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
    // What is silent would keep the server's side open.
    drop((hung, long, short));
    proxy.cut();
    nothing_left(&server, [locks]).await;
}
