//! Waiters that are stopped and killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tests::checker::Checker;
use tests::redis::RedisServer;
use tests::wait::{eventually, within};

use crate::support::*;

/// `dead` waiters stand in line, are killed or frozen, and a live one comes behind them. How long
/// it takes from the release to its grant; the lease is 30 s.
async fn delay_behind(dead: u64, killed: bool) -> Duration {
    let (server, history) = (RedisServer::start(), History::new());
    let locks = connect(&server.url(), ms(30_000)).await;
    let holder = history.actor("holder", &locks, &server);
    let (guard, _) = holder.acquire("k", ms(1_000)).await;
    let mut crowd = history.worker("crowd", &server.url(), &server, 30_000);
    assert!(crowd.ask(&format!("flood k {dead} 60000")).await.ok);
    line_of(&server, "k", dead).await;
    match killed {
        true => crowd.kill(),
        false => crowd.freeze(),
    }
    let other = connect(&server.url(), ms(30_000)).await;
    let next = history.actor("next", &other, &server);
    let waiting = tokio::spawn({
        let next = next.clone();
        async move { next.acquire("k", ms(10_000)).await.0 }
    });
    line_of(&server, "k", dead + 1).await;
    if killed {
        eventually("the server knows of the deaths", || server.channels().len() == 2).await;
    }
    let start = Instant::now();
    holder.release(guard.unwrap()).await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    let took = start.elapsed();
    next.release(guard).await.unwrap();
    crowd.kill();
    assert_eq!(history.check(Checker::new().exclusive()).grants, 2);
    drop((holder, next));
    nothing_left(&server, [locks, other]).await;
    took
}

/// F04 (V2, V4, V5, V6): killed waiters are skipped at once, however many they are and however
/// long the lease is. Also "a fair queue blocked by a dead head".
#[tokio::test]
async fn killed_waiters_are_skipped_however_many_they_are() {
    for dead in [1, 100] {
        let took = delay_behind(dead, true).await;
        // Nobody listens for them, so not even the claim lease of one is waited for.
        assert!(took < CLAIM_LEASE * 2 / 3, "{dead} dead waiters: {took:?}");
    }
}

/// F04 (V2, V4, V5, V6): the same of waiters that are stopped, whose connections still listen.
#[tokio::test]
async fn frozen_waiters_cost_one_deadline_together() {
    let took = delay_behind(40, false).await;
    assert!(took < CLAIM_LEASE + RECHECK + SLACK, "{took:?}");
}

/// F04 (V1, V2, V6): a waiter that was stopped when the key was handed to it, and goes on after
/// that grant has ended, does not take the stale push for a grant.
#[tokio::test]
async fn a_thawed_waiter_does_not_use_a_grant_that_has_ended() {
    let (server, history) = (RedisServer::start(), History::new());
    let locks = connect(&server.url(), ms(600)).await;
    let other = connect(&server.url(), ms(600)).await;
    let first = history.actor("first", &locks, &server);
    let second = history.actor("second", &other, &server);
    let (guard, _) = first.acquire("k", ms(1_000)).await;
    let mut frozen = history.worker("frozen", &server.url(), &server, 600);
    frozen.send("acquire k 20000");
    line_of(&server, "k", 1).await;
    frozen.freeze();
    first.release(guard.unwrap()).await.unwrap();
    let (guard, _) = second.acquire("k", ms(9_000)).await;
    let guard = guard.unwrap();
    frozen.thaw();
    assert!(second.write(&guard).await);
    line_of(&server, "k", 1).await;
    let token = guard.token().get();
    second.release(guard).await.unwrap();
    assert!(frozen.reply().await.token() > token);
    assert!(frozen.ask("write").await.accepted());
    assert!(frozen.ask("release").await.ok);
    frozen.send("exit");
    frozen.ended().await;
    let report = history.check(Checker::new().exclusive());
    assert_eq!((report.grants, report.writes_refused), (3, 0));
    drop((first, second));
    nothing_left(&server, [locks, other]).await;
}

/// How many grants newcomers had while the head of the line waited.
#[derive(Debug)]
struct Barged {
    /// Up to the first recheck of the head that finds one of them.
    before: usize,
    /// From then on.
    after: usize,
}

/// Takes the key whenever it is free, and gives it back, until told to end; the tokens.
async fn barge(actor: Actor, ended: Arc<AtomicBool>) -> Vec<u64> {
    let mut tokens = Vec::new();
    while !ended.load(Ordering::SeqCst) {
        let Some(guard) = actor.try_acquire("k").await.unwrap() else { continue };
        tokens.push(guard.token().get());
        // So that the key is next to never free.
        tokio::time::sleep(ms(1)).await;
        actor.release(guard).await.unwrap();
    }
    tokens
}

/// What the clock of the server read when it wrote this line of `MONITOR`, in tokens.
fn ticks(line: &str) -> u64 {
    let (seconds, micros) = line.split_once(' ').unwrap().0.split_once('.').unwrap();
    let [seconds, micros] = [seconds, micros].map(|part| part.parse::<u64>().unwrap());
    ((seconds - 1_577_836_800) * 1_000_000 + micros) * 8
}

/// A holder dies while one waits, `end` ends its lease, and a stream of newcomers never leaves the
/// key alone. Tokens tell the order in which the server served them.
async fn stream(lease_ms: u64, end: &[&str]) -> Barged {
    let (server, history) = (RedisServer::start(), History::new());
    let [first, second] =
        [connect(&server.url(), ms(30_000)).await, connect(&server.url(), ms(30_000)).await];
    let other = connect(&server.url(), ms(30_000)).await;
    let waiter = history.actor("waiter", &other, &server);
    let mut holder = history.worker("holder", &server.url(), &server, lease_ms);
    assert!(holder.ask("acquire k 1000").await.ok);
    let waiting = tokio::spawn(async move {
        let (guard, took) = waiter.acquire("k", ms(4_000)).await;
        (waiter, guard, took)
    });
    line_of(&server, "k", 1).await;
    let head: Vec<String> = server.command(&["LRANGE", "lock:{k}:queue", "0", "0"]);
    let monitor = redis::Client::open(server.url()).unwrap().get_async_monitor().await.unwrap();
    let rechecks = tokio::spawn(async move {
        let lines = monitor.into_on_message::<String>().filter_map(|line| {
            let of_head = line.contains("EVALSHA") && line.contains(&head[0]);
            async move { of_head.then(|| ticks(&line)) }
        });
        lines.collect::<Vec<u64>>().await
    });
    let ended = Arc::new(AtomicBool::new(false));
    let newcomers: Vec<_> = (0..8)
        .map(|n| {
            let locks = if n % 2 == 0 { &first } else { &second };
            let actor = history.actor(&format!("new/{n}"), locks, &server);
            tokio::spawn(barge(actor, ended.clone()))
        })
        .collect();
    holder.kill();
    if !end.is_empty() {
        assert_eq!(server.command::<u64>(end), 1);
    }
    let (waiter, guard, _) = waiting.await.unwrap();
    let guard = guard.expect("the head of the line is served in time");
    let served = guard.token().get();
    waiter.release(guard).await.unwrap();
    ended.store(true, Ordering::SeqCst);
    let mut tokens = Vec::new();
    for newcomer in newcomers {
        tokens.extend(newcomer.await.unwrap());
    }
    // Monitors are connections of their own.
    server.command::<()>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let rechecks = within("the end of the monitor", rechecks).await.unwrap();
    tokens.retain(|token| *token < served);
    let opened = tokens.iter().min().copied().unwrap_or(served);
    let looked = rechecks.into_iter().find(|at| *at > opened).unwrap_or(served);
    history.check(Checker::new().exclusive().killed("holder"));
    drop(waiter);
    nothing_left(&server, [first, second, other]).await;
    let after = tokens.iter().filter(|token| **token > looked).count();
    Barged { before: tokens.len() - after, after }
}

/// V2, V4, V5: newcomers may pass by a line whose holder died, but only until its head looks: from
/// then on the next is the head, however many come and however fast.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_newcomers_passes_the_head_of_the_line_until_its_recheck_and_no_longer() {
    let mut passed = 0;
    for (lease_ms, end) in
        [(30_000, &["DEL", "lock:{k}"][..]), (30_000, &["PEXPIRE", "lock:{k}", "1"]), (700, &[])]
    {
        let barged = stream(lease_ms, end).await;
        // The one that the recheck found in the key was there before it.
        assert_eq!(barged.after, 0, "{end:?}: {barged:?}");
        passed += barged.before;
    }
    assert!(passed > 0, "nobody came by");
}
