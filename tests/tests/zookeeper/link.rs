//! Links that are silent, slow or cut.

use std::time::Instant;

use lock_core::{LossReason, ReleaseError};
use tests::checker::Checker;
use tests::proxy::{Direction, Flow, Proxy};
use tests::wait::{eventually, within};

use crate::support::*;

/// F10 (V1, V2, V3, V6): whichever way the silence is, a holder is told by its own clock, before
/// the server grants the key to another.
#[tokio::test]
async fn a_holder_behind_a_black_hole_is_told_by_its_own_clock_before_another_is_granted() {
    use Direction::{ToClient, ToServer};
    let server = Zoo::start().await;
    for silent in [&[ToServer, ToClient][..], &[ToServer], &[ToClient]] {
        let history = History::new();
        let (proxy, locks) = behind_proxy(&server, SHORT).await;
        let other = connect(&server.at(LONG)).await;
        let (holder, rival) = (history.actor("holder", &locks), history.actor("rival", &other));
        let (guard, _) = holder.acquire("k", ms(1_000)).await;
        let guard = guard.unwrap();
        for direction in silent {
            proxy.set(*direction, Flow::BlackHole);
        }
        let start = Instant::now();
        let waiting = tokio::spawn({
            let rival = rival.clone();
            async move { rival.acquire("k", ms(9_000)).await.0 }
        });
        let lost = holder.lost(&guard).await;
        assert!(start.elapsed() < SHORT * 2 / 3 + LATE, "{:?}", start.elapsed());
        assert!(!waiting.is_finished() && server.holder("k").is_some(), "told in time");
        assert_eq!((lost.reason(), lost.token()), (LossReason::Expired, guard.token()));
        assert!(!guard.is_held());
        let next = within("the rival", waiting).await.unwrap().unwrap();
        assert!(start.elapsed() < SHORT + TICK * 2 + SLACK, "{:?}", start.elapsed());
        assert!(next.token() > guard.token());
        assert!(rival.write(&next).await && !holder.write(&guard).await);
        assert!(holder.release(guard).await.unwrap_err().is_not_held());
        rival.release(next).await.unwrap();
        assert_eq!(history.check(Checker::new().exclusive()).writes_refused, 1);
        proxy.resume();
        drop((holder, rival));
        nothing_left(&server, [locks, other]).await;
    }
}

/// F10 (V6, V8): a release into a black hole ends within the operation's 2 s and says that its
/// outcome is not known; it goes on, and frees the key in the living session.
#[tokio::test]
async fn a_release_into_a_black_hole_says_that_it_does_not_know_and_goes_on() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, LONG).await;
    let guard = locks.lock("k").await.unwrap();
    proxy.black_hole();
    let start = Instant::now();
    let error = guard.release().await.unwrap_err();
    assert!(start.elapsed() < REQUEST + SLACK, "{:?}", start.elapsed());
    assert!(matches!(error, ReleaseError::Unavailable(_)), "{error:?}");
    assert_eq!(server.line("k").len(), 1);
    proxy.resume();
    server.line_of("k", 0).await;
    assert_eq!(server.sessions().len(), 1, "the session lives");
    nothing_left(&server, [locks]).await;
}

/// F10 (V4, V6, V8): an acquire into a black hole ends with its budget, as `Unavailable` and not
/// as `Timeout`; when the link is back, the node that appears late is deleted.
#[tokio::test]
async fn an_acquire_into_a_black_hole_ends_with_its_budget_and_leaves_no_node() {
    let server = Zoo::start().await;
    for silent in [Direction::ToServer, Direction::ToClient] {
        let history = History::new();
        let (proxy, locks) = behind_proxy(&server, LONG).await;
        let actor = history.actor("a", &locks);
        proxy.set(silent, Flow::BlackHole);
        let (answer, _) = actor.acquire("k", ms(300)).await;
        let error = answer.unwrap_err();
        assert!(error.is_unavailable() && error.is_retryable(), "{error}");
        let seen = proxy.counters().replies;
        proxy.resume();
        proxy.wait_until("the late answer", |counters| counters.replies > seen).await;
        eventually("no key is busy", || locks.stats().keys == 0).await;
        the_next_one_proceeds(&server, "k").await;
        assert!(!server.sessions().is_empty(), "the session lives");
        history.check(Checker::new());
        drop(actor);
        nothing_left(&server, [locks]).await;
    }
}

/// F10 (V3, V6): round trips of 80 ms cost no hold of a session of 2 s.
#[tokio::test]
async fn a_slow_link_is_not_a_broken_one() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, SHORT).await;
    proxy.set(Direction::ToServer, Flow::Delay(ms(40)));
    proxy.set(Direction::ToClient, Flow::Delay(ms(40)));
    let guard = locks.lock("k").await.unwrap();
    // Past the first session.
    eventually("renewals", || locks.stats().renewals >= 6).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    proxy.resume();
    nothing_left(&server, [locks]).await;
}

/// F25 (V5, V6): a waiter whose notification is lost finds that it is first by asking again.
#[tokio::test]
async fn a_waiter_whose_notification_is_lost_is_granted_by_its_recheck() {
    let server = Zoo::start().await;
    let (proxy, waiter) = behind_proxy(&server, ms(3_000)).await;
    let holder = connect(&server.at(LONG)).await;
    let held = holder.lock("k").await.unwrap();
    proxy.drop_pushes(true);
    let waiting = tokio::spawn(waiter.lock("k").acquire());
    server.watching("k", 2).await;
    let start = Instant::now();
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(start.elapsed() < ms(1_000) + SLACK, "{:?}", start.elapsed());
    assert!(proxy.counters().pushes_dropped > 0, "nothing was lost");
    guard.release().await.unwrap();
    nothing_left(&server, [waiter, holder]).await;
}

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
        let start = Instant::now();
        held.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
        guard.release().await.unwrap();
        nothing_left(&server, [waiter, holder]).await;
    }
}

/// F25 (V5, V6): what happened while the connection was cut is not missed.
#[tokio::test]
async fn a_release_while_the_waiter_was_cut_off_is_seen_when_it_is_back() {
    let server = Zoo::start().await;
    let (proxy, waiter) = behind_proxy(&server, LONG).await;
    let holder = connect(&server.at(LONG)).await;
    let held = holder.lock("k").await.unwrap();
    let waiting = tokio::spawn(waiter.lock("k").acquire());
    server.line_of("k", 2).await;
    proxy.refuse();
    eventually("it is cut off", || server.sessions().iter().any(|s| !s.connected)).await;
    held.release().await.unwrap();
    assert!(!waiting.is_finished());
    let start = Instant::now();
    proxy.resume();
    let guard = within("the grant", waiting).await.unwrap().unwrap();
    assert!(start.elapsed() < ms(2_500) + SLACK, "{:?}", start.elapsed());
    guard.release().await.unwrap();
    nothing_left(&server, [waiter, holder]).await;
}
