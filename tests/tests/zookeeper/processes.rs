//! Holders that are stopped and killed.

use std::time::Instant;

use tests::checker::Checker;
use tests::proxy::Proxy;

use crate::support::*;

/// F01 (V1, V2, V3, V6): a holder that is stopped past its session is succeeded at its end under
/// a higher token. It learns of its loss before it does anything else, and what it still writes
/// is refused.
#[tokio::test]
async fn a_frozen_holder_is_succeeded_at_its_session_end_and_what_it_writes_is_refused() {
    let (server, history) = (Zoo::start().await, History::new());
    let locks = connect(&server.at(LONG)).await;
    let successor = history.actor("successor", &locks);
    let mut holder = history.worker("holder", &server.at(SHORT));
    let old = holder.ask("acquire k 1000").await.token();
    assert!(holder.ask("write").await.accepted());
    holder.freeze();
    let (guard, took) = successor.acquire("k", ms(9_000)).await;
    let guard = guard.unwrap();
    assert!(took < SHORT + TICK * 2 + SLACK, "{took:?}");
    assert!(guard.token().get() > old);
    assert!(successor.write(&guard).await);
    // The first thing that it does when it goes on.
    holder.send("is_held");
    holder.thaw();
    assert_eq!(holder.reply().await.held, Some(false));
    assert_eq!(holder.ask("lost").await.message.as_deref(), Some("Expired"));
    assert!(!holder.ask("write").await.accepted());
    assert_eq!(holder.ask("release").await.error(), "not_held");
    successor.release(guard).await.unwrap();
    // Its client has a new session by the next acquire.
    assert!(holder.ask("acquire k 9000").await.token() > old);
    assert!(holder.ask("release").await.ok);
    holder.send("exit");
    holder.ended().await;
    let report = history.check(Checker::new());
    assert_eq!((report.grants, report.writes_accepted, report.writes_refused), (3, 2, 1));
    drop(successor);
    nothing_left(&server, [locks]).await;
}

/// F02 (V1, V2): a process whose runtime is blocked past its lease and past its session keeps its
/// lock: both are kept elsewhere.
#[tokio::test]
async fn a_holder_whose_runtime_is_blocked_past_its_lease_and_its_session_keeps_its_lock() {
    let (server, history) = (Zoo::start().await, History::new());
    let locks = connect(&server.at(LONG)).await;
    let successor = history.actor("successor", &locks);
    let mut holder = history.worker("holder", &server.at(SHORT));
    let token = holder.ask("acquire k 1000 600").await.token();
    let held = server.holder("k");
    holder.send("block 4500");
    holder.send("is_held");
    let (refused, took) = successor.acquire("k", ms(4_000)).await;
    assert!(refused.unwrap_err().is_timeout() && took > SHORT + TICK * 2);
    assert_eq!(server.holder("k"), held);
    assert!(holder.reply().await.ok, "the block is over");
    assert_eq!(holder.reply().await.held, Some(true));
    assert!(holder.ask("write").await.accepted());
    assert!(holder.ask("release").await.ok);
    let (guard, _) = successor.acquire("k", ms(9_000)).await;
    let guard = guard.unwrap();
    assert!(guard.token().get() > token && successor.write(&guard).await);
    successor.release(guard).await.unwrap();
    holder.send("exit");
    holder.ended().await;
    let report = history.check(Checker::new().exclusive());
    assert_eq!((report.writes_accepted, report.writes_refused), (2, 0));
    drop(successor);
    nothing_left(&server, [locks]).await;
}

/// F01 (V2, V3, V6): a holder that is stopped past its lease has lost it by its own clock, even if
/// the session lives; it takes its node away when it goes on, long before the session ends.
#[tokio::test]
async fn a_holder_that_is_stopped_past_its_lease_has_lost_it_though_its_session_lives() {
    let (server, history) = (Zoo::start().await, History::new());
    let locks = connect(&server.at(LONG)).await;
    let successor = history.actor("successor", &locks);
    let mut holder = history.worker("holder", &server.at(LONG));
    let old = holder.ask("acquire k 1000 600").await.token();
    let (session, _) = server.holder("k").unwrap();
    holder.freeze();
    assert!(successor.acquire("k", ms(1_000)).await.0.unwrap_err().is_timeout());
    holder.send("is_held");
    holder.thaw();
    assert_eq!(holder.reply().await.held, Some(false));
    assert_eq!(holder.ask("lost").await.message.as_deref(), Some("Expired"));
    let (guard, took) = successor.acquire("k", ms(9_000)).await;
    let guard = guard.unwrap();
    assert!(took < SLACK, "{took:?}");
    assert!(guard.token().get() > old && successor.write(&guard).await);
    assert!(server.sessions().iter().any(|one| one.id == session), "the session lives");
    successor.release(guard).await.unwrap();
    holder.send("exit");
    holder.ended().await;
    history.check(Checker::new());
    drop(successor);
    server.expire_session(session);
    nothing_left(&server, [locks]).await;
}

/// F03 (V2, V5, V6): the key of a killed holder is granted when its session has ended; other keys
/// are served meanwhile.
#[tokio::test]
async fn the_key_of_a_killed_holder_is_granted_when_its_session_has_ended() {
    let (server, history) = (Zoo::start().await, History::new());
    let locks = connect(&server.at(LONG)).await;
    let next = history.actor("next", &locks);
    let mut holder = history.worker("holder", &server.at(SHORT));
    let old = holder.ask("acquire k 1000").await.token();
    holder.kill();
    let waiting = tokio::spawn({
        let next = next.clone();
        async move { next.acquire("k", ms(9_000)).await }
    });
    server.line_of("k", 2).await;
    let other = history.actor("other", &locks);
    let (guard, _) = other.acquire("unconcerned", ms(1_000)).await;
    other.release(guard.unwrap()).await.unwrap();
    let (guard, took) = waiting.await.unwrap();
    let guard = guard.unwrap();
    assert!(took < SHORT + TICK * 2 + SLACK, "{took:?}");
    assert!(guard.token().get() > old);
    next.release(guard).await.unwrap();
    history.check(Checker::new().exclusive().killed("holder"));
    drop((next, other));
    nothing_left(&server, [locks]).await;
}

/// F05 (V2, V5, V6): a waiter that dies when the key is its own, and before it heard of it, costs
/// what is left of its session.
#[tokio::test]
async fn a_key_that_fell_to_a_process_that_died_before_it_heard_of_it_passes_on() {
    let (server, history) = (Zoo::start().await, History::new());
    let proxy = Proxy::zookeeper(server.addr());
    let locks = connect(&server.at(LONG)).await;
    let first = history.actor("first", &locks);
    let (guard, _) = first.acquire("k", ms(1_000)).await;
    let mut doomed = history.worker("doomed", &with_session(&proxy.url(), SHORT));
    doomed.send("acquire k 20000");
    server.line_of("k", 2).await;
    proxy.black_hole();
    first.release(guard.unwrap()).await.unwrap();
    assert_eq!(server.line("k").len(), 1, "it is the first now");
    doomed.kill();
    let second = history.actor("second", &locks);
    let (guard, took) = second.acquire("k", ms(9_000)).await;
    assert!(took < SHORT + TICK * 2 + SLACK, "{took:?}");
    second.release(guard.unwrap()).await.unwrap();
    proxy.resume();
    history.check(Checker::new().exclusive().killed("doomed"));
    drop((first, second));
    nothing_left(&server, [locks]).await;
}

/// F20 (V6): a holder that is asked to end gives its lock back before its session ends, and exits
/// with success.
#[tokio::test]
async fn a_terminated_holder_gives_its_lock_back_before_its_session_ends() {
    let (server, history) = (Zoo::start().await, History::new());
    let locks = connect(&server.at(LONG)).await;
    let mut holder = history.worker("holder", &server.at(ms(5_000)));
    let old = holder.ask("acquire k 1000").await.token();
    let start = Instant::now();
    holder.terminate();
    let guard = locks.lock("k").wait(ms(9_000)).await.unwrap();
    // The grace time of the worker is 1 s.
    assert!(start.elapsed() < ms(2_000) + SLACK, "{:?}", start.elapsed());
    assert!(guard.token().get() > old);
    assert!(holder.ended().await.success());
    guard.release().await.unwrap();
    // The worker exits at once, so its session, with nothing left in it, ends by itself.
    nothing_left(&server, [locks]).await;
}
