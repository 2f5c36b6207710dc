//! Holders that are stopped and killed.

use std::time::Instant;

use tests::checker::Checker;
use tests::proxy::Proxy;
use tests::redis::RedisServer;
use tests::wait::eventually;

use crate::support::*;

/// F01 (V1, V2, V3, V6): a holder that is stopped past its lease is succeeded at the lease end
/// under a higher token. It learns of its loss before it does anything else, and what it still
/// writes is refused.
#[tokio::test]
async fn a_frozen_holder_is_succeeded_at_its_lease_end_and_what_it_writes_is_refused() {
    let (server, history) = (RedisServer::start(), History::new());
    let locks = connect(&server.url(), ms(500)).await;
    let successor = history.actor("successor", &locks, &server);
    let mut holder = history.worker("holder", &server.url(), &server, 500);
    let old = holder.ask("acquire k 1000").await.token();
    assert!(holder.ask("write").await.accepted());
    holder.freeze();
    let (guard, took) = successor.acquire("k", ms(5_000)).await;
    let guard = guard.unwrap();
    assert!(took < ms(500) + RECHECK + SLACK, "{took:?}");
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
    holder.send("exit");
    holder.ended().await;
    let report = history.check(Checker::new());
    assert_eq!((report.grants, report.writes_accepted, report.writes_refused), (2, 2, 1));
    drop(successor);
    nothing_left(&server, [locks]).await;
}

/// F02 (V1, V2, V3, V6): a runtime that is blocked for three leases loses none: its conductor
/// renews.
#[tokio::test]
async fn a_holder_whose_runtime_is_blocked_past_its_lease_keeps_its_lock() {
    let (server, history) = (RedisServer::start(), History::new());
    let locks = connect(&server.url(), ms(400)).await;
    let successor = history.actor("successor", &locks, &server);
    let mut holder = history.worker("holder", &server.url(), &server, 400);
    let old = holder.ask("acquire k 1000").await.token();
    holder.send("block 1200");
    holder.send("is_held");
    let (refused, _) = successor.acquire("k", ms(1_000)).await;
    assert!(refused.unwrap_err().is_timeout());
    assert!(holder.reply().await.ok, "the block is over");
    assert_eq!(holder.reply().await.held, Some(true));
    assert!(holder.ask("write").await.accepted());
    holder.ask("release").await;
    let (guard, _) = successor.acquire("k", ms(5_000)).await;
    let guard = guard.unwrap();
    assert!(guard.token().get() > old && successor.write(&guard).await);
    successor.release(guard).await.unwrap();
    holder.send("exit");
    holder.ended().await;
    assert_eq!(history.check(Checker::new()).writes_refused, 0);
    drop(successor);
    nothing_left(&server, [locks]).await;
}

/// F03 (V2, V5, V6): the key of a killed holder is granted within its lease and a recheck; other
/// keys are served meanwhile.
#[tokio::test]
async fn the_key_of_a_killed_holder_is_granted_when_its_lease_has_ended() {
    let (server, history) = (RedisServer::start(), History::new());
    let locks = connect(&server.url(), ms(800)).await;
    let next = history.actor("next", &locks, &server);
    let mut holder = history.worker("holder", &server.url(), &server, 800);
    let old = holder.ask("acquire k 1000").await.token();
    holder.kill();
    let waiting = tokio::spawn({
        let next = next.clone();
        async move { next.acquire("k", ms(5_000)).await }
    });
    line_of(&server, "k", 1).await;
    let other = history.actor("other", &locks, &server);
    let (guard, _) = other.acquire("unconcerned", ms(1_000)).await;
    other.release(guard.unwrap()).await.unwrap();
    assert!(!waiting.is_finished() || server.key("lock:{k}").is_some());
    let (guard, took) = waiting.await.unwrap();
    let guard = guard.unwrap();
    assert!(took < ms(800) + RECHECK + SLACK, "{took:?}");
    assert!(guard.token().get() > old);
    next.release(guard).await.unwrap();
    history.check(Checker::new().exclusive().killed("holder"));
    drop((next, other));
    nothing_left(&server, [locks]).await;
}

/// F05 (V2, V5, V6): a process that dies after the store granted it the key, and before it heard
/// of it, costs the claim lease, not the lease.
#[tokio::test]
async fn a_grant_to_a_process_that_died_before_it_heard_of_it_passes_on_after_the_claim_lease() {
    let (server, history) = (RedisServer::start(), History::new());
    let proxy = Proxy::start(server.addr());
    let locks = connect(&server.url(), ms(30_000)).await;
    let first = history.actor("first", &locks, &server);
    let (guard, _) = first.acquire("k", ms(1_000)).await;
    let mut doomed = history.worker("doomed", &proxy.url(), &server, 30_000);
    doomed.send("acquire k 20000");
    line_of(&server, "k", 1).await;
    // The server sees a live subscriber, which hears nothing.
    proxy.black_hole();
    first.release(guard.unwrap()).await.unwrap();
    let left = server.key("lock:{k}").expect("it was granted").ttl_ms.expect("for a time");
    assert!(left <= 1_500, "the claim lease, not the lease: {left} ms");
    doomed.kill();
    let second = history.actor("second", &locks, &server);
    let (guard, took) = second.acquire("k", ms(10_000)).await;
    assert!(took < CLAIM_LEASE + RECHECK + SLACK, "{took:?}");
    second.release(guard.unwrap()).await.unwrap();
    proxy.resume();
    history.check(Checker::new().exclusive().killed("doomed"));
    drop((first, second));
    nothing_left(&server, [locks]).await;
}

/// F05 (V2, V5, V6): processes whose machine lost its power leave their connections open at the
/// server, so they are not known to be gone. Each counts as waiting for 1.5 s after its last word,
/// and a hand-off to it costs the claim lease: a whole row of them costs no more than one.
#[tokio::test]
async fn a_row_of_waiters_without_power_costs_one_claim_lease() {
    let (server, history) = (RedisServer::start(), History::new());
    let proxy = Proxy::start(server.addr());
    let locks = connect(&server.url(), ms(30_000)).await;
    let first = history.actor("first", &locks, &server);
    let (guard, _) = first.acquire("k", ms(1_000)).await;
    let mut row = Vec::new();
    for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
        let mut doomed = history.worker(name, &proxy.url(), &server, 30_000);
        doomed.send("acquire k 20000");
        line_of(&server, "k", n as u64 + 1).await;
        row.push(doomed);
    }
    // Their ends of the connections say nothing more, not even that they are closed.
    proxy.black_hole();
    row.iter_mut().for_each(|doomed| doomed.kill());
    first.release(guard.unwrap()).await.unwrap();
    let second = history.actor("second", &locks, &server);
    let (guard, took) = second.acquire("k", ms(10_000)).await;
    assert!(took < CLAIM_LEASE + RECHECK + SLACK, "{took:?}");
    second.release(guard.unwrap()).await.unwrap();
    proxy.resume();
    history.check(Checker::new().exclusive().killed("a").killed("b").killed("c"));
    drop((first, second));
    nothing_left(&server, [locks]).await;
}

/// F20 (V6): a holder that is asked to end gives its lock back at once and exits with success.
#[tokio::test]
async fn a_terminated_holder_gives_its_lock_back_before_its_lease_ends() {
    let (server, history) = (RedisServer::start(), History::new());
    let locks = connect(&server.url(), ms(30_000)).await;
    let mut holder = history.worker("holder", &server.url(), &server, 30_000);
    let old = holder.ask("acquire k 1000").await.token();
    let start = Instant::now();
    holder.terminate();
    let guard = locks.lock("k").wait(ms(9_000)).await.unwrap();
    assert!(start.elapsed() < ms(9_000) && guard.token().get() > old);
    assert!(holder.ended().await.success());
    guard.release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F39 (V1, V2, V3): a holder that gets next to no processor time either renews in time or is
/// told that it lost, before a rival is granted.
#[tokio::test]
async fn a_starved_holder_renews_in_time_or_is_told() {
    use std::process::{Child, Command};
    struct Burners(Vec<Child>);
    impl Drop for Burners {
        fn drop(&mut self) {
            for burner in &mut self.0 {
                let _ = (burner.kill(), burner.wait());
            }
        }
    }
    let (server, history) = (RedisServer::start(), History::new());
    let locks = connect(&server.url(), ms(600)).await;
    let rival = history.actor("rival", &locks, &server);
    let mut holder = history.worker("holder", &server.url(), &server, 600);
    let token = holder.ask("acquire k 1000").await.token();
    let burn = || Command::new("nice").args(["sh", "-c", "while :; do :; done"]).spawn();
    let burners = Burners((0..8).map(|_| burn().expect("a shell")).collect());
    // The lowest priority from here on, among eight that never rest.
    let pid = holder.pid().to_string();
    assert!(Command::new("renice").args(["-n", "19", &pid]).output().unwrap().status.success());
    for _ in 0..3 {
        match rival.acquire("k", ms(600)).await.0 {
            Ok(guard) => {
                assert!(guard.token().get() > token);
                assert!(rival.write(&guard).await);
                assert_eq!(holder.ask("is_held").await.held, Some(false));
                rival.release(guard).await.unwrap();
                break;
            }
            Err(error) => assert!(error.is_timeout(), "{error}"),
        }
    }
    drop(burners);
    let accepted = holder.ask("write").await.accepted();
    let told = holder.ask("is_held").await.held == Some(false);
    assert!(accepted || told, "refused, and not told");
    holder.send("exit");
    holder.ended().await;
    // Not `exclusive`: a starved process writes its loss down late.
    history.check(Checker::new());
    eventually("the holder is gone", || server.key("lock:{k}").is_none()).await;
    drop(rival);
    nothing_left(&server, [locks]).await;
}
