//! Requests that take effect without an answer.

use std::time::Instant;

use lock_core::LossReason;
use tests::proxy::{Action, Direction, Flow};
use tests::redis::RedisServer;
use tests::wait::{eventually, within};

use crate::support::*;

/// F11 (V2, V6): the same claim asks again, is told that it is the owner, and has a later token.
#[tokio::test]
async fn an_acquire_whose_reply_is_swallowed_is_granted_once() {
    let server = RedisServer::start();
    let (proxy, locks) = behind_proxy(&server, ms(30_000)).await;
    let trap = proxy.trap(call_for("k"), Action::SwallowReply);
    let acquire = tokio::spawn(locks.lock("k").acquire());
    trap.sprung().await;
    let token = fence(&server, "k").expect("it was granted");
    let guard = acquire.await.unwrap().unwrap();
    assert!(guard.token().get() > token);
    let rival = connect(&server.url(), ms(1_000)).await;
    assert!(rival.lock("k").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    nothing_left(&server, [locks, rival]).await;
}

/// F11 (V6): an attempt that never reached the server is made again.
#[tokio::test]
async fn an_acquire_whose_request_is_lost_is_made_again() {
    let server = RedisServer::start();
    let (proxy, locks) = behind_proxy(&server, ms(30_000)).await;
    let trap = proxy.trap(call_for("k"), Action::DropRequest);
    let guard = locks.lock("k").await.unwrap();
    trap.sprung().await;
    assert_eq!(fence(&server, "k"), Some(guard.token().get() + 31));
    guard.release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F11 (V6, V8): a try that does not wait, and whose reply is swallowed, does not know; the grant
/// that was made is given back.
#[tokio::test]
async fn a_try_whose_reply_is_swallowed_gives_its_grant_back() {
    let server = RedisServer::start();
    let (proxy, locks) = behind_proxy(&server, ms(30_000)).await;
    let trap = proxy.trap(call_for("k"), Action::SwallowReply);
    let error = locks.lock("k").try_acquire().await.unwrap_err();
    assert!(trap.has_sprung() && error.is_unavailable(), "{error}");
    assert!(fence(&server, "k").is_some(), "it was granted");
    eventually("the key is free", || server.key("lock:{k}").is_none()).await;
    nothing_left(&server, [locks]).await;
}

/// F12 (V6): a release whose reply is swallowed is asked again; that nothing is held then counts
/// as done.
#[tokio::test]
async fn a_release_whose_reply_is_swallowed_is_done() {
    let server = RedisServer::start();
    let (proxy, locks) = behind_proxy(&server, ms(30_000)).await;
    let guard = locks.lock("k").await.unwrap();
    let trap = proxy.trap(call_for("k"), Action::SwallowReply);
    guard.release().await.unwrap();
    assert!(trap.has_sprung() && server.key("lock:{k}").is_none());
    nothing_left(&server, [locks]).await;
}

/// F12 (V2, V6): a release that is asked again after its reply was swallowed does not take the
/// key from the one it was handed to.
#[tokio::test]
async fn a_repeated_release_leaves_the_next_holder_alone() {
    let server = RedisServer::start();
    let (proxy, locks) = behind_proxy(&server, ms(30_000)).await;
    let next = connect(&server.url(), ms(30_000)).await;
    let guard = locks.lock("k").await.unwrap();
    let token = guard.token();
    let waiting = tokio::spawn(next.lock("k").acquire());
    line_of(&server, "k", 1).await;
    // The push of the wish makes the holder ask who waits; that call is not the release.
    eventually("it knows of the wish", || locks.stats().renewals >= 1).await;
    let trap = proxy.trap(call_for("k"), Action::SwallowReply);
    guard.release().await.unwrap();
    assert!(trap.has_sprung());
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token() > token && guard.is_held());
    eventually("it is renewed", || next.stats().renewals >= 1).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    nothing_left(&server, [locks, next]).await;
}

/// F13 (V3, V6): renewals that take effect and are not answered do not extend the lease.
#[tokio::test]
async fn a_lease_counts_from_the_last_answered_request() {
    let server = RedisServer::start();
    let (proxy, locks) = behind_proxy(&server, ms(900)).await;
    let guard = locks.lock("k").await.unwrap();
    let granted = Instant::now();
    proxy.set(Direction::ToClient, Flow::BlackHole);
    let lost = within("the loss", guard.lost()).await;
    let took = granted.elapsed();
    assert_eq!(lost.reason(), LossReason::Expired);
    assert!(took < ms(900) + SLACK, "{took:?}");
    assert_eq!(locks.stats().renewals, 0);
    drop(guard);
    proxy.resume();
    nothing_left(&server, [locks]).await;
}

/// F13, and "renewal stops after one failed update" (V3, V6): after one lost renewal, request or
/// reply, the next is made, and the lock outlives several leases.
#[tokio::test]
async fn renewals_go_on_after_one_that_failed() {
    for action in [Action::SwallowReply, Action::DropRequest] {
        let server = RedisServer::start();
        let (proxy, locks) = behind_proxy(&server, ms(1_200)).await;
        let guard = locks.lock("k").await.unwrap();
        let trap = proxy.trap(call_for("k"), action);
        trap.sprung().await;
        assert_eq!(locks.stats().renewals, 0);
        eventually("renewals after the fault", || locks.stats().renewals >= 6).await;
        assert!(guard.is_held());
        guard.release().await.unwrap();
        nothing_left(&server, [locks]).await;
    }
}

/// F11 to F13 (V6): whichever of the first requests of a life of a lock loses its reply, its
/// request or its time, the lock is taken and given back, and the next client has it.
#[tokio::test]
async fn any_one_fault_in_the_life_of_a_lock_leaves_it_usable() {
    let server = RedisServer::start();
    let next = connect(&server.url(), ms(600)).await;
    for action in [Action::SwallowReply, Action::DropRequest, Action::HoldReply] {
        for nth in 0..3 {
            let (proxy, locks) = behind_proxy(&server, ms(600)).await;
            let trap = proxy.trap(call_for("k").after(nth), action);
            let guard = locks.lock("k").await.unwrap_or_else(|error| {
                panic!("{action:?} of request {nth}: {error}");
            });
            // A release may have to wait for its time limit here.
            let released = guard.release().await;
            let guard = next.lock("k").await.unwrap();
            if let Err(error) = released {
                assert!(error.is_unavailable(), "{action:?} of request {nth}: {error}");
            }
            guard.release().await.unwrap();
            drop(trap);
            eventually("it is quiet", || locks.stats().keys == 0).await;
        }
    }
    nothing_left(&server, [next]).await;
}
