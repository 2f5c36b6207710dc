//! Sessions that end, that lose their own node, and that have nothing to do.

use std::time::Duration;

use lock_core::error::LossReason;
use tests::checker::Checker;
use tests::proxy::{Action, Proxy};
use tests::stalls::Stopwatch;
use tests::wait::{eventually, within};

use crate::support::*;

/// F22 (V1, V2, V3, V6): the end of the session is told at once. The node of the new session is
/// another, under a higher token.
#[tokio::test]
async fn a_holder_whose_session_expires_is_told_and_its_next_grant_is_a_new_one() {
    let (server, history) = (Zoo::start().await, History::new());
    let locks = connect(&server.at(LONG)).await;
    let actor = history.actor("a", &locks);
    let (guard, _) = actor.acquire("k", ms(9_000)).await;
    let guard = guard.unwrap();
    assert!(actor.write(&guard).await);
    let (session, birth) = server.holder("k").unwrap();
    let start = Stopwatch::start();
    server.expire_session(session);
    let lost = actor.lost(&guard).await;
    assert!(start.own() < LONG / 3, "by the watch, not by the clock: {:?}", start.elapsed());
    assert_eq!(lost.reason(), LossReason::Taken);
    assert!(actor.release(guard).await.unwrap_err().is_not_held());
    let (guard, _) = actor.acquire("k", ms(9_000)).await;
    let guard = guard.unwrap();
    let (new_session, new_birth) = server.holder("k").unwrap();
    assert_ne!(new_session, session);
    assert!(new_birth > birth && guard.token().get() >> 12 == new_birth);
    assert!(actor.write(&guard).await);
    actor.release(guard).await.unwrap();
    assert_eq!(history.check(Checker::new().exclusive()).grants, 2);
    drop(actor);
    nothing_left(&server, [locks]).await;
}

/// The time of a silent client before it gives its session up: 7/5 of the session, and what a busy
/// machine adds.
const GIVEN_UP: Duration = ms(4_500);

/// A client whose link swallows everything gives its session up, while the server keeps that and its
/// nodes for as long as the test needs: nobody else is granted `k`.
async fn give_up(server: &Zoo, proxy: &Proxy, session: i64) {
    proxy.black_hole();
    server.prolong_session(session, LONG);
    let rival = connect(&server.at(LONG)).await;
    let error = rival.lock("k").wait(GIVEN_UP).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    server.line_of("k", 1).await;
    server.prolong_session(session, LONG);
    // First, so that nothing arrives that was swallowed.
    proxy.reset();
    proxy.resume();
}

/// F22, and "a node of the previous session taken for one's own" (V1, V2, V6): a client that gave
/// its session up for lost, and whose old node is still there, waits for it like anyone else.
#[tokio::test]
async fn the_node_of_the_previous_session_is_waited_for_and_not_adopted() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, SHORT).await;
    let guard = locks.lock("k").await.unwrap();
    let (session, birth) = server.holder("k").unwrap();
    give_up(&server, &proxy, session).await;
    assert!(!guard.is_held());
    drop(guard);
    let waiting = tokio::spawn(locks.lock("k").acquire());
    server.line_of("k", 2).await;
    assert_eq!(server.holder("k"), Some((session, birth)), "the old node is there still");
    assert!(!waiting.is_finished());
    server.expire_session(session);
    let guard = within("the grant", waiting).await.unwrap().unwrap();
    let (new_session, new_birth) = server.holder("k").unwrap();
    assert!(new_session != session && new_birth > birth, "{new_session:#x} {session:#x}");
    assert_eq!(guard.token().get() >> 12, new_birth);
    guard.release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F11 and F22 at once (V2, V6): a claim that missed the answer to its creation, and whose session
/// was then given up, does not take the node of that session for its own: it neither holds by it
/// nor deletes it.
#[tokio::test]
async fn a_claim_in_doubt_leaves_the_node_of_its_previous_session_alone() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, SHORT).await;
    let trap = proxy.trap(first_create_of("k"), Action::HoldReply);
    let waiting = tokio::spawn(locks.lock("k").acquire());
    trap.sprung().await;
    let (old_session, old_birth) = server.holder("k").unwrap();
    give_up(&server, &proxy, old_session).await;
    server.line_of("k", 2).await;
    let (line, name) = (server.line("k"), |node: &str| node[.."_c_".len() + 36].to_owned());
    assert_ne!(name(&line[0]), name(&line[1]), "each place in the line has a name of its own");
    assert_eq!(server.holder("k"), Some((old_session, old_birth)));
    assert!(!waiting.is_finished());
    server.expire_session(old_session);
    let guard = within("the grant", waiting).await.unwrap().unwrap();
    let (session, birth) = server.holder("k").unwrap();
    assert!(session != old_session && birth > old_birth);
    assert_eq!(guard.token().get() >> 12, birth);
    guard.release().await.unwrap();
    drop(trap);
    nothing_left(&server, [locks]).await;
}

/// F23 (V2, V4, V6): a waiter whose session expires stands in line again within the same budget.
#[tokio::test]
async fn a_waiter_whose_session_expires_is_in_line_again_within_its_budget() {
    let (server, history) = (Zoo::start().await, History::new());
    let holder = connect(&server.at(LONG)).await;
    let locks = connect(&server.at(LONG)).await;
    let held = holder.lock("k").await.unwrap();
    let (session, _) = server.holder("k").unwrap();
    let waiter = history.actor("waiter", &locks);
    let waiting = tokio::spawn({
        let waiter = waiter.clone();
        async move { waiter.acquire("k", ms(30_000)).await }
    });
    for _ in 0..3 {
        server.line_of("k", 2).await;
        let own = |s: &tests::zookeeper::Session| s.id != session && s.ephemerals.len() == 2;
        let Some(waiting) = server.sessions().into_iter().find(own) else {
            panic!("no session of the waiter: {:?}", server.sessions());
        };
        server.expire_session(waiting.id);
    }
    server.line_of("k", 2).await;
    assert!(!waiting.is_finished());
    held.release().await.unwrap();
    let (guard, took) = waiting.await.unwrap();
    assert!(took < ms(30_000) + LATE, "{took:?}");
    waiter.release(guard.unwrap()).await.unwrap();
    history.check(Checker::new().exclusive());
    drop(waiter);
    nothing_left(&server, [holder, locks]).await;
}

/// F23 (V4, V8): a waiter whose session expires again and again ends with its budget.
#[tokio::test]
async fn a_waiter_whose_sessions_do_not_last_ends_with_its_budget() {
    let (server, history) = (Zoo::start().await, History::new());
    let holder = connect(&server.at(LONG)).await;
    let locks = connect(&server.at(LONG)).await;
    let held = holder.lock("k").await.unwrap();
    let (session, _) = server.holder("k").unwrap();
    let waiter = history.actor("waiter", &locks);
    let waiting = tokio::spawn({
        let waiter = waiter.clone();
        async move { waiter.acquire("k", ms(1_500)).await.0 }
    });
    while !waiting.is_finished() {
        for other in server.sessions() {
            if other.id != session {
                server.expire_session(other.id);
            }
        }
        tokio::task::yield_now().await;
    }
    let error = waiting.await.unwrap().unwrap_err();
    assert!(error.is_timeout() || error.is_unavailable(), "{error}");
    assert!(held.is_held());
    held.release().await.unwrap();
    history.check(Checker::new());
    drop(waiter);
    nothing_left(&server, [holder, locks]).await;
}

/// V3, V6: an operator who deletes the session's own node, or the directory of all of them, ends
/// no session and no hold.
#[tokio::test]
async fn a_session_whose_own_node_is_deleted_makes_it_again_and_goes_on() {
    let server = Zoo::start().await;
    let locks = connect(&server.at(STEADY)).await;
    let guard = locks.lock("k").await.unwrap();
    let (session, _) = server.holder("k").unwrap();
    let own = format!("/{{lock-sessions}}/{session:#x}");
    for with_directory in [false, true] {
        assert!(server.delete(&own));
        if with_directory {
            server.delete("/{lock-sessions}");
        }
        eventually("the node is there again", || server.node(&own).is_some()).await;
        let written = || server.node(&own).map_or(0, |node| node.version);
        let before = written();
        eventually("a session has passed", || written() >= before + 3).await;
        assert!(guard.is_held());
    }
    assert_eq!(server.holder("k").map(|(session, _)| session), Some(session));
    guard.release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// V3, V6: the same of a client that holds nothing: the next proof makes its node again.
#[tokio::test]
async fn a_client_whose_node_is_deleted_while_it_is_idle_takes_locks_as_ever() {
    let server = Zoo::start().await;
    let locks = connect(&server.at(STEADY)).await;
    let session = server.sessions()[0].id;
    let own = format!("/{{lock-sessions}}/{session:#x}");
    assert!(server.delete(&own));
    eventually("its node is there again", || server.node(&own).is_some()).await;
    let guard = locks.lock("k").await.unwrap();
    eventually("renewals", || locks.stats().renewals >= 4).await;
    assert!(guard.is_held());
    assert_eq!(server.sessions()[0].id, session);
    guard.release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F14's other half, cost: a client writes about each third of its session, be it idle, waiting or
/// holding, and sends nothing else of its own accord.
#[tokio::test]
async fn a_client_writes_each_third_of_its_session_and_asks_nothing_else() {
    let server = Zoo::start().await;
    let (proxy, locks) = behind_proxy(&server, STEADY).await;
    let id = server.sessions()[0].id;
    let guard = locks.lock("k").await.unwrap();
    guard.release().await.unwrap();
    eventually("no key is busy", || locks.stats().keys == 0).await;
    let version = || server.node(&format!("/{{lock-sessions}}/{id:#x}")).unwrap().version;
    let three_writes = async || {
        let (before, start) = (version(), Stopwatch::start());
        eventually("three writes", || version() >= before + 3).await;
        assert!(start.elapsed() > STEADY / 3 && start.own() < STEADY + SLACK, "{start:?}");
    };
    let (asked, writes) = (proxy.counters().requests, version());
    three_writes().await;
    let (asked, writes) = (proxy.counters().requests - asked, version() - writes);
    assert!(asked <= u64::try_from(writes).unwrap() + 1, "{asked} requests, {writes} writes");

    let holder = connect(&server.at(LONG)).await;
    let held = holder.lock("k").await.unwrap();
    let waiting = tokio::spawn(locks.lock("k").acquire());
    server.line_of("k", 2).await;
    three_writes().await;
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    three_writes().await;
    guard.release().await.unwrap();
    nothing_left(&server, [holder, locks]).await;
}
