//! Waiters that are stopped and killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use tests::checker::Checker;
use tests::redis::RedisServer;
use tests::wait::within;

use crate::support::*;

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

/// The time on the server's clock when it wrote this line of `MONITOR`, in tokens.
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
    let waiter = history.actor("waiter", &other);
    let mut holder = history.worker("holder", &server.url(), ms(lease_ms));
    holder.ask("acquire k 9000").await.expect_success();
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
            let actor = history.actor(&format!("new/{n}"), locks);
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
