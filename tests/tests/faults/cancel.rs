//! F18: an acquire that is dropped, at each place where it can wait.

use std::time::Instant;

use futures_util::FutureExt;
use lock_core::LockClient;
use tests::proxy::{Action, Proxy};
use tests::redis::RedisServer;
use tests::wait::eventually;

use crate::support::*;

/// V5 and V6 after an acquire of `k` was dropped: another client has the key without waiting for
/// the lease of 30 s, and nothing is left.
async fn the_next_one_proceeds(server: &RedisServer, locks: LockClient, proxy: Option<&Proxy>) {
    let next = connect(&server.url(), ms(30_000)).await;
    let start = Instant::now();
    next.lock("k").wait(ms(9_000)).await.unwrap().release().await.unwrap();
    assert!(start.elapsed() < CLAIM_LEASE + RECHECK + SLACK, "{:?}", start.elapsed());
    if let Some(proxy) = proxy {
        proxy.resume();
    }
    nothing_left(server, [locks, next]).await;
}

#[tokio::test]
async fn an_acquire_that_was_never_polled_has_done_nothing() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(30_000)).await;
    let before = locks.stats();
    drop(locks.lock("k").acquire());
    assert_eq!(locks.stats(), before);
    the_next_one_proceeds(&server, locks, None).await;
}

#[tokio::test]
async fn an_acquire_dropped_after_its_first_poll_leaves_nothing() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(30_000)).await;
    let mut acquire = locks.lock("k").acquire();
    assert!((&mut acquire).now_or_never().is_none());
    drop(acquire);
    the_next_one_proceeds(&server, locks, None).await;
}

#[tokio::test]
async fn an_acquire_dropped_while_its_request_or_reply_is_on_its_way_leaves_nothing() {
    for action in [Action::HoldRequest, Action::HoldReply, Action::SwallowReply] {
        let server = RedisServer::start();
        let (proxy, locks) = behind_proxy(&server, ms(30_000)).await;
        let trap = proxy.trap(call_for("k"), action);
        let acquire = tokio::spawn(locks.lock("k").acquire());
        trap.sprung().await;
        acquire.abort();
        assert!(acquire.await.unwrap_err().is_cancelled(), "{action:?}");
        trap.release();
        the_next_one_proceeds(&server, locks, Some(&proxy)).await;
    }
}

#[tokio::test]
async fn an_acquire_dropped_in_line_leaves_the_line() {
    let server = RedisServer::start();
    let holder = connect(&server.url(), ms(30_000)).await;
    let locks = connect(&server.url(), ms(30_000)).await;
    let held = holder.lock("k").await.unwrap();
    let acquire = tokio::spawn(locks.lock("k").wait(ms(60_000)).acquire());
    line_of(&server, "k", 1).await;
    acquire.abort();
    line_of(&server, "k", 0).await;
    held.release().await.unwrap();
    drop(holder);
    the_next_one_proceeds(&server, locks, None).await;
}

/// The others of the same process keep the claim's place.
#[tokio::test]
async fn an_acquire_dropped_in_line_leaves_the_place_to_those_behind_it() {
    let server = RedisServer::start();
    let holder = connect(&server.url(), ms(30_000)).await;
    let locks = connect(&server.url(), ms(30_000)).await;
    let held = holder.lock("k").await.unwrap();
    let first = tokio::spawn(locks.lock("k").acquire());
    line_of(&server, "k", 1).await;
    let second = tokio::spawn(locks.lock("k").acquire());
    eventually("both wait", || locks.stats().waiters == 2).await;
    first.abort();
    eventually("one waits", || locks.stats().waiters == 1).await;
    held.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();
    drop(holder);
    the_next_one_proceeds(&server, locks, None).await;
}

#[tokio::test]
async fn an_acquire_dropped_with_a_grant_that_it_did_not_look_at_passes_it_on() {
    let server = RedisServer::start();
    let holder = connect(&server.url(), ms(30_000)).await;
    let locks = connect(&server.url(), ms(30_000)).await;
    let held = holder.lock("k").await.unwrap();
    let mut acquire = locks.lock("k").acquire();
    assert!((&mut acquire).now_or_never().is_none());
    line_of(&server, "k", 1).await;
    held.release().await.unwrap();
    eventually("the grant is there", || locks.stats().held == 1).await;
    drop(acquire);
    drop(holder);
    the_next_one_proceeds(&server, locks, None).await;
}

#[tokio::test]
async fn an_acquire_dropped_between_two_tries_leaves_nothing() {
    let server = RedisServer::start();
    let holder = connect(&server.url(), ms(30_000)).await;
    let locks = connect(&server.url(), ms(30_000)).await;
    let held = holder.lock("k").await.unwrap();
    let mut acquire = locks.lock("k").wait(ms(20)).retries(1_000).acquire();
    let pausing = std::future::poll_fn(|cx| {
        let _ = acquire.poll_unpin(cx);
        match format!("{acquire:?}").contains("pausing") {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    });
    tests::wait::within("the pause", pausing).await;
    drop(acquire);
    line_of(&server, "k", 0).await;
    held.release().await.unwrap();
    drop(holder);
    the_next_one_proceeds(&server, locks, None).await;
}

#[tokio::test]
async fn acquires_dropped_at_any_moment_under_contention_leave_nothing() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(30_000)).await;
    let rival = connect(&server.url(), ms(30_000)).await;
    let traffic = tokio::spawn({
        let rival = rival.clone();
        async move {
            for _ in 0..150 {
                rival.lock("k").wait(ms(20_000)).await.unwrap().release().await.unwrap();
            }
        }
    });
    let mut granted = 0;
    for n in 0..300 {
        // Counted in turns of the runtime: a grant takes some.
        let turns = fastrand::u32(0..20);
        let patience = async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            guard = locks.lock("k").acquire() => {
                granted += 1;
                // Given up in both ways.
                match n % 2 {
                    0 => drop(guard.unwrap()),
                    _ => guard.unwrap().release().await.unwrap(),
                }
            }
            () = patience => {}
        }
    }
    traffic.await.unwrap();
    assert!((1..300).contains(&granted), "{granted} of 300 were granted");
    drop(rival);
    the_next_one_proceeds(&server, locks, None).await;
}

/// F18 (V5, V6): acquires and releases, dropped at each place where they can wait.
#[tokio::test]
async fn whatever_is_dropped_at_any_poll_leaves_the_lock_to_the_next() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(30_000)).await;
    let other = connect(&server.url(), ms(30_000)).await;
    tests::cancel::at_each_poll(&locks, &other, ms(30_000)).await;
    nothing_left(&server, [locks, other]).await;
}
