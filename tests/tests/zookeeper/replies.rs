//! Requests that take effect without an answer.

use std::time::Instant;

use lock_core::LossReason;
use tests::proxy::{Action, Direction, Flow};
use tests::wait::{eventually, within};

use crate::support::*;

/// F11 (V2, V6): the claim finds the node whose creation was not answered, and stays where it
/// stands: one node, and its birth is the token.
#[tokio::test]
async fn an_acquire_whose_reply_is_swallowed_is_granted_by_the_node_that_it_made() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, LONG).await;
    let trap = proxy.trap(first_create_of("k"), Action::SwallowReply);
    let acquire = tokio::spawn(locks.lock("k").acquire());
    trap.sprung().await;
    let (session, birth) = server.holder("k").expect("it was created");
    let guard = acquire.await.unwrap().unwrap();
    assert_eq!(guard.token().get() >> 12, birth);
    server.line_of("k", 1).await;
    assert_eq!(server.holder("k"), Some((session, birth)), "one grant, one node");
    let rival = connect(&server.at(LONG)).await;
    assert!(rival.lock("k").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    nothing_left(&server, [locks, rival]).await;
}

/// F11 (V2, V5, V6): the same of a waiter: it keeps its place in the line.
#[tokio::test]
async fn a_waiter_whose_create_was_not_answered_keeps_its_place() {
    let server = Zoo::start().await;
    let holder = connect(&server.at(LONG)).await;
    let behind = connect(&server.at(LONG)).await;
    let (proxy, locks) = behind_proxy(&server, LONG).await;
    let held = holder.lock("k").await.unwrap();
    let trap = proxy.trap(create_of("k"), Action::SwallowReply);
    let first = tokio::spawn(locks.lock("k").acquire());
    trap.sprung().await;
    let place = server.line("k")[1].clone();
    let second = tokio::spawn(behind.lock("k").acquire());
    server.line_of("k", 3).await;
    held.release().await.unwrap();
    let guard = first.await.unwrap().unwrap();
    assert_eq!(server.line("k")[0], place);
    assert!(!second.is_finished());
    guard.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();
    nothing_left(&server, [holder, locks, behind]).await;
}

/// F11 (V3, V6): a creation that never reached the server is made again, and what it makes stays.
#[tokio::test]
async fn an_acquire_whose_request_is_lost_is_made_again() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, SHORT).await;
    let trap = proxy.trap(first_create_of("k"), Action::DropRequest);
    let guard = locks.lock("k").await.unwrap();
    assert!(trap.has_sprung());
    let (_, birth) = server.holder("k").unwrap();
    assert_eq!((guard.token().get() >> 12, server.line("k").len()), (birth, 1));
    // What is left of the first try is cleared away meanwhile, and nothing else.
    eventually("renewals", || locks.stats().renewals >= 3).await;
    assert!(guard.is_held() && server.holder("k").is_some_and(|(_, now)| now == birth));
    guard.release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F11 (V6, V8): a try that does not wait, and whose reply is swallowed, does not know; the node
/// that was made goes, though the session lives on.
#[tokio::test]
async fn a_try_whose_reply_is_swallowed_gives_its_grant_back() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, LONG).await;
    for action in [Action::SwallowReply, Action::DropRequest] {
        let trap = proxy.trap(first_create_of("k"), action);
        let answer = locks.lock("k").try_acquire().await;
        assert!(trap.has_sprung());
        let error = answer.unwrap_err();
        assert!(error.is_unavailable() && error.is_retryable(), "{error}");
        eventually("no key is busy", || locks.stats().keys == 0).await;
        the_next_one_proceeds(&server, "k").await;
        eventually("the session goes on alone", || server.sessions().len() == 1).await;
        eventually("the directory is gone", || server.node("/k").is_none()).await;
    }
    nothing_left(&server, [locks]).await;
}

/// F12 (V6): a release whose reply is swallowed is asked again; that there is no node then counts
/// as done.
#[tokio::test]
async fn a_release_whose_reply_is_swallowed_is_done() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, LONG).await;
    let guard = locks.lock("k").await.unwrap();
    let trap = proxy.trap(delete_of("k"), Action::SwallowReply);
    guard.release().await.unwrap();
    assert!(trap.has_sprung() && server.line("k").is_empty());
    nothing_left(&server, [locks]).await;
}

/// F12 (V2, V6): a release that is asked again after its reply was swallowed does not take the
/// key from the next in line.
#[tokio::test]
async fn a_repeated_release_leaves_the_next_holder_alone() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, LONG).await;
    let next = connect(&server.at(LONG)).await;
    let guard = locks.lock("k").await.unwrap();
    let token = guard.token();
    let waiting = tokio::spawn(next.lock("k").acquire());
    server.line_of("k", 2).await;
    let trap = proxy.trap(delete_of("k"), Action::SwallowReply);
    guard.release().await.unwrap();
    assert!(trap.has_sprung());
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token() > token && guard.is_held());
    let renewals = next.stats().renewals;
    eventually("it is renewed", || next.stats().renewals > renewals).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    nothing_left(&server, [locks, next]).await;
}

/// F13 (V3, V6): what the session writes and is not told of proves nothing: the hold ends two
/// thirds of the session after the last answered write.
#[tokio::test]
async fn a_hold_counts_from_the_last_answered_write() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, SHORT).await;
    let guard = locks.lock("k").await.unwrap();
    let start = Instant::now();
    proxy.set(Direction::ToClient, Flow::BlackHole);
    let lost = within("the loss", guard.lost()).await;
    let took = start.elapsed();
    assert_eq!(lost.reason(), LossReason::Expired);
    assert!(took < SHORT * 2 / 3 + LATE, "{took:?}");
    drop(guard);
    proxy.resume();
    nothing_left(&server, [locks]).await;
}

/// F13, and "renewal stops after one failed update" (V3, V6): after one lost write of the
/// session, request or reply, the next is made, and the hold outlives its session.
#[tokio::test]
async fn a_session_goes_on_proving_itself_after_one_write_was_lost() {
    let server = Zoo::start().await;
    let mut held = Vec::new();
    for action in [Action::SwallowReply, Action::DropRequest] {
        // Long enough that a busy machine is not taken for a second lost write.
        let (proxy, locks) = behind_proxy(&server, ms(5_000)).await;
        let guard = locks.lock(format!("{action:?}")).await.unwrap();
        let trap = proxy.trap(beat(), action);
        trap.sprung().await;
        held.push((proxy, locks, guard));
    }
    let beats = || -> Vec<i32> {
        let own = server.tree("/{lock-sessions}").into_iter().skip(1);
        own.map(|node| node.version).collect()
    };
    let before = beats();
    eventually("more than a session has passed", || {
        beats().iter().zip(&before).all(|(now, before)| *now >= before + 4)
    })
    .await;
    for (_proxy, locks, guard) in held {
        assert!(guard.is_held());
        guard.release().await.unwrap();
        drop(locks);
    }
    nothing_left(&server, []).await;
}
