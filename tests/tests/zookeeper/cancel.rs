//! F18: acquires and releases that are dropped, at each place where they can wait.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tests::proxy::{Action, Match};
use tests::wait::eventually;

use crate::support::*;

/// The request of a lock on `key` after the first `n`, whatever it asks for.
fn nth_request(key: &str, n: u64) -> Match {
    Match::any().containing(format!("/{key}")).after(n)
}

/// V5, V6: whichever request or reply an acquire of a free key is dropped at, no node is left in
/// the living session.
#[tokio::test]
async fn an_acquire_dropped_at_any_of_its_requests_leaves_no_node() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, LONG).await;
    let session = server.sessions()[0].id;
    for action in [Action::HoldRequest, Action::HoldReply] {
        let mut dropped = 0;
        loop {
            let key = format!("{action:?}-{dropped}");
            let trap = proxy.trap(nth_request(&key, dropped), action);
            let mut acquire = tokio::spawn(locks.lock(&key).acquire());
            let granted = tokio::select! {
                biased;
                guard = &mut acquire => Some(guard.unwrap().unwrap()),
                () = trap.sprung() => None,
            };
            if let Some(guard) = granted {
                drop(trap);
                guard.release().await.unwrap();
                break;
            }
            acquire.abort();
            assert!(acquire.await.unwrap_err().is_cancelled());
            trap.release();
            eventually("no key is busy", || locks.stats().keys == 0).await;
            the_next_one_proceeds(&server, &key).await;
            dropped += 1;
        }
        // Two to find no directory, three to make it, create and list.
        assert!(dropped >= 5, "{action:?}: {dropped} places");
    }
    assert!(server.sessions().iter().any(|one| one.id == session), "the session lives");
    nothing_left(&server, [locks]).await;
}

/// V5, V6: the same of an acquire that gets into line: until it watches, and when it asks again.
#[tokio::test]
async fn an_acquire_dropped_at_any_of_its_requests_in_line_leaves_the_line() {
    let server = Zoo::start().await;
    // It asks again after a third of this.
    let (proxy, locks) = behind_proxy(&server, SHORT).await;
    let holder = connect(&server.at(LONG)).await;
    for action in [Action::HoldRequest, Action::HoldReply] {
        for nth in 0..5 {
            let key = format!("{action:?}-{nth}");
            let held = holder.lock(&key).await.unwrap();
            let trap = proxy.trap(nth_request(&key, nth), action);
            let acquire = tokio::spawn(locks.lock(&key).acquire());
            trap.sprung().await;
            acquire.abort();
            assert!(acquire.await.unwrap_err().is_cancelled());
            trap.release();
            eventually("no key is busy", || locks.stats().keys == 0).await;
            server.line_of(&key, 1).await;
            held.release().await.unwrap();
            the_next_one_proceeds(&server, &key).await;
        }
    }
    nothing_left(&server, [locks, holder]).await;
}

/// V5, V6, and "an orphan node after a cancelled acquire": the caller is gone, and so is the
/// answer to its creation.
#[tokio::test]
async fn an_acquire_dropped_while_its_reply_is_lost_leaves_no_orphan() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, ms(6_000)).await;
    for (nth, action) in [
        Action::SwallowReply,
        Action::DropRequest,
        // Silence, until the client gives the connection up.
        Action::HoldReply,
        Action::HoldRequest,
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("k{nth}");
        let trap = proxy.trap(first_create_of(&key), action);
        let acquire = tokio::spawn(locks.lock(&key).acquire());
        trap.sprung().await;
        acquire.abort();
        let _ = acquire.await;
        eventually("no key is busy", || locks.stats().keys == 0).await;
        the_next_one_proceeds(&server, &key).await;
        drop(trap);
    }
    nothing_left(&server, [locks]).await;
}

/// V5, V6: a release that is dropped goes on, from its first poll and before.
#[tokio::test]
async fn a_release_dropped_at_any_place_goes_on() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, LONG).await;
    let guard = locks.lock("k").await.unwrap();
    drop(guard.release());
    the_next_one_proceeds(&server, "k").await;
    let guard = locks.lock("k").await.unwrap();
    assert!(guard.release().now_or_never().is_none());
    the_next_one_proceeds(&server, "k").await;
    for action in
        [Action::HoldRequest, Action::HoldReply, Action::DropRequest, Action::SwallowReply]
    {
        let guard = locks.lock("k").await.unwrap();
        let trap = proxy.trap(delete_of("k"), action);
        let release = tokio::spawn(guard.release());
        trap.sprung().await;
        release.abort();
        let _ = release.await;
        trap.release();
        the_next_one_proceeds(&server, "k").await;
    }
    nothing_left(&server, [locks]).await;
}

/// V5, V6: a guard that is dropped while its delete is lost in any way.
#[tokio::test]
async fn a_guard_dropped_while_its_delete_is_lost_leaves_no_node() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, LONG).await;
    for action in [Action::DropRequest, Action::SwallowReply] {
        let guard = locks.lock("k").await.unwrap();
        let trap = proxy.trap(delete_of("k"), action);
        drop(guard);
        trap.sprung().await;
        the_next_one_proceeds(&server, "k").await;
        eventually("no key is busy", || locks.stats().keys == 0).await;
    }
    nothing_left(&server, [locks]).await;
}

/// V6: the others of the same process keep the claim's place.
#[tokio::test]
async fn an_acquire_dropped_in_line_leaves_the_place_to_those_behind_it() {
    let server = Zoo::start().await;
    let holder = connect(&server.at(LONG)).await;
    let locks = connect(&server.at(LONG)).await;
    let held = holder.lock("k").await.unwrap();
    let first = tokio::spawn(locks.lock("k").acquire());
    server.line_of("k", 2).await;
    let place = server.line("k")[1].clone();
    let second = tokio::spawn(locks.lock("k").acquire());
    eventually("both wait", || locks.stats().waiters == 2).await;
    first.abort();
    eventually("one waits", || locks.stats().waiters == 1).await;
    held.release().await.unwrap();
    let guard = second.await.unwrap().unwrap();
    assert_eq!(server.line("k"), [place]);
    guard.release().await.unwrap();
    nothing_left(&server, [holder, locks]).await;
}

/// V5, V6: an acquire that is dropped with a grant that it did not look at passes it on.
#[tokio::test]
async fn an_acquire_dropped_with_a_grant_that_it_did_not_look_at_passes_it_on() {
    let server = Zoo::start().await;
    let holder = connect(&server.at(LONG)).await;
    let locks = connect(&server.at(LONG)).await;
    let held = holder.lock("k").await.unwrap();
    let mut acquire = locks.lock("k").acquire();
    assert!((&mut acquire).now_or_never().is_none());
    server.line_of("k", 2).await;
    held.release().await.unwrap();
    eventually("the grant is there", || locks.stats().held == 1).await;
    drop(acquire);
    the_next_one_proceeds(&server, "k").await;
    nothing_left(&server, [holder, locks]).await;
}

/// V2, V5, V6: acquires dropped at any moment under contention.
#[tokio::test]
async fn acquires_dropped_at_any_moment_under_contention_leave_nothing() {
    let server = Zoo::start().await;
    let locks = connect(&server.at(LONG)).await;
    let rival = connect(&server.at(LONG)).await;
    let traffic = tokio::spawn({
        let rival = rival.clone();
        async move {
            for _ in 0..150 {
                rival.lock("k").wait(ms(30_000)).await.unwrap().release().await.unwrap();
            }
        }
    });
    let (mut granted, mut tries, start) = (0, 0, Instant::now());
    while tries < 300 && start.elapsed() < ms(20_000) {
        tries += 1;
        let patience = Duration::from_micros(fastrand::u64(0..8_000));
        match tokio::time::timeout(patience, locks.lock("k").acquire()).await {
            Ok(guard) => {
                granted += 1;
                // Given up in both ways.
                match tries % 2 {
                    0 => drop(guard.unwrap()),
                    _ => guard.unwrap().release().await.unwrap(),
                }
            }
            Err(_) => tokio::task::yield_now().await,
        }
    }
    traffic.await.unwrap();
    assert!(granted < tries, "nothing was dropped");
    eventually("no key is busy", || locks.stats().keys == 0).await;
    the_next_one_proceeds(&server, "k").await;
    assert_eq!(server.watches(), 0);
    nothing_left(&server, [locks, rival]).await;
}

/// F18 (V5, V6): acquires and releases, dropped at each place where they can wait.
#[tokio::test]
async fn whatever_is_dropped_at_any_poll_leaves_the_lock_to_the_next() {
    let server = Zoo::start().await;
    let (locks, other) = (connect(&server.at(LONG)).await, connect(&server.at(LONG)).await);
    tests::cancel::at_each_poll(&locks, &other, ms(30_000)).await;
    nothing_left(&server, [locks, other]).await;
}
