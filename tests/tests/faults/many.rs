//! Keys that are many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use lock_core::{AcquireError, LockClient};
use tests::checker::Checker;
use tests::redis::RedisServer;
use tests::wait::{eventually, within};
use tokio::task::{JoinSet, yield_now};

use crate::support::*;

/// How much of a process is in memory, in kB.
fn resident_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// F35 (V6): the memory of a process stays flat over keys that it uses once each. A hundred bytes
/// kept per key would be 1 MB here.
#[tokio::test]
async fn the_memory_of_a_process_stays_flat_over_keys_used_once_each() {
    let (server, history) = (RedisServer::start(), History::new());
    let mut worker = history.worker("worker", &server.url(), ms(10_000));
    let mut used = 0;
    let mut resident = Vec::new();
    for _ in 0..3 {
        for _ in 0..50 {
            // In blocks, as one answer at a time would measure the pipe.
            for n in 0..100 {
                worker.send(&format!("contend k:{}:{n} 1 1 0 5000", used));
            }
            for _ in 0..100 {
                worker.reply().await.expect_success();
            }
            used += 1;
        }
        resident.push(resident_kb(worker.pid()));
    }
    let stats = worker.ask("stats").await.value.unwrap();
    assert_eq!((&stats["keys"], &stats["acquired"]), (&0.into(), &15_000.into()));
    assert!(resident[2] <= resident[0] + 700, "kB after each 5,000 keys: {resident:?}");
    worker.send("exit");
    worker.ended().await;
    history.check(Checker::new().exclusive());
    nothing_left(&server, []).await;
}

/// Tasks of each client, so many that most of their requests go together.
const CROWD: usize = 128;

/// V1, V2: what many tasks ask together excludes the tasks of another client, with tokens that grow.
#[tokio::test]
async fn claims_that_ask_together_exclude_each_other_and_have_tokens_that_grow() {
    let server = RedisServer::start();
    let clients =
        [connect(&server.url(), ms(10_000)).await, connect(&server.url(), ms(10_000)).await];
    // The greatest token of each key.
    let greatest: Arc<Vec<_>> = Arc::new((0..CROWD).map(|_| AtomicU64::new(0)).collect());
    let mut tasks = JoinSet::new();
    for (client, task) in (0..2).flat_map(|client| (0..CROWD).map(move |task| (client, task))) {
        let (locks, greatest) = (clients[client].clone(), greatest.clone());
        tasks.spawn(async move {
            for round in 0..40 {
                // Neighbours meet, and most keys are free.
                let key = (task + round * (1 + client)) % CROWD;
                let guard = locks.lock(format!("k:{key}")).await.unwrap();
                let (greatest, token) = (&greatest[key], guard.token().get());
                // A grant that was pushed is good for 1.5 s, and a busy machine may take those.
                let alone = |seen: u64, is_so: bool| {
                    let told = format!("a finding of safety: {key} has {seen} beside {token}");
                    assert!(is_so || !guard.is_held(), "{told}");
                };
                let before = greatest.fetch_max(token, Ordering::SeqCst);
                assert_ne!(before, token, "a finding of safety: a token of {key} twice");
                alone(before, before < token);
                // The others run meanwhile.
                yield_now().await;
                let now = greatest.load(Ordering::SeqCst);
                alone(now, now == token);
                drop(guard.release().await);
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let stats = clients.each_ref().map(|client| client.stats());
    let (acquired, requests) = stats.iter().fold((0, 0), |(acquired, requests), stats| {
        (acquired + stats.acquired, requests + stats.store_requests)
    });
    // One that ran out before its task came to run was counted, too.
    assert!(acquired >= 2 * 40 * CROWD as u64, "{acquired}");
    assert!(requests < acquired * 3 / 2, "{requests} requests for {acquired}: few went together");
    nothing_left(&server, clients).await;
}

/// V2, V5, V6: the only worker is blocked while calls for many claims are under way, for longer
/// than a request may take. None of them hangs, none is granted to nobody, and all go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn claims_that_ask_together_outlive_a_blocked_worker() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(10_000)).await;
    let (begun, mut has_begun) = tokio::sync::watch::channel(0);
    let mut tasks = JoinSet::new();
    for task in 0..CROWD {
        let (locks, begun) = (locks.clone(), begun.clone());
        tasks.spawn(async move {
            for round in 0..60 {
                let guard = locks.lock(format!("k:{task}:{}", round % 2)).await.unwrap();
                // Some had lost the answer to an attempt.
                drop(guard.release().await);
                begun.send_modify(|begun| *begun += 1);
            }
        });
    }
    has_begun.wait_for(|begun| *begun > 10 * CROWD).await.unwrap();
    tokio::spawn(async { std::thread::sleep(ms(2_500)) }).await.unwrap();
    while let Some(ended) = within("the others", tasks.join_next()).await {
        ended.unwrap();
    }
    assert_eq!(locks.stats().acquired, 60 * CROWD as u64);
    nothing_left(&server, [locks]).await;
}

/// A value of somebody else's at the clock is an error of each acquire, and stays; nothing is held.
#[tokio::test]
async fn claims_that_ask_together_find_a_foreign_clock_each_by_itself() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(10_000)).await;
    server.command::<()>(&["SET", "lock:clock", "theirs"]);
    let acquires = (0..CROWD).map(|n| locks.lock(format!("k:{n}")).try_acquire());
    for acquired in join_all(acquires).await {
        assert!(matches!(acquired, Err(AcquireError::Unavailable(_))), "{acquired:?}");
    }
    let names: Vec<_> = server.keys().into_iter().map(|key| key.name).collect();
    assert_eq!(names, ["lock:clock"]);
    assert_eq!(server.command::<String>(&["GET", "lock:clock"]), "theirs");
}

/// Distinct keys, and those of them that two clients want at once.
const KEYS: usize = 100_000;
const WANTED: usize = 1_000;

const TASKS: usize = 64;

/// Takes `first`, `first + TASKS` ... of the first `keys` keys, and gives each back.
async fn take_each(locks: LockClient, first: usize, keys: usize) {
    for n in (first..keys).step_by(TASKS) {
        given_back(locks.lock(format!("k:{n}")).await.unwrap()).await;
    }
}

/// V6: a hundred thousand keys, of which some were contended for and some lost, leave one key at
/// the server.
///
/// The process that dies holds keys that nobody wants, keys that others wait for, and places in the
/// line of keys that are held on. Its last traces end with the time that a line is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_keys_leave_one_key_at_the_server() {
    let (server, history) = (RedisServer::start(), History::new());
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(connect(&server.url(), ms(10_000)).await);
    }
    let mut doomed = history.worker("doomed", &server.url(), ms(6_000));
    for n in 0..20 {
        doomed.ask(&format!("acquire held:{n} 9000")).await.expect_success();
    }
    let kept = clients[0].lock("awaited").await.unwrap();
    doomed.ask("flood awaited 3 60000").await.expect_success();
    // The holder of this key and its line die together.
    doomed.ask("flood held:0 3 60000").await.expect_success();
    line_of(&server, "awaited", 3).await;
    line_of(&server, "held:0", 3).await;
    let heirs: Vec<_> = (10..20)
        .map(|n| tokio::spawn(clients[1].lock(format!("held:{n}")).wait(ms(60_000)).acquire()))
        .collect();
    for n in 10..20 {
        line_of(&server, &format!("held:{n}"), 1).await;
    }
    doomed.kill();
    let endless = server.keys().into_iter().filter(|key| key.ttl_ms.is_none());
    assert!(endless.into_iter().all(|key| key.is_clock()), "the death would be kept for good");

    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        tasks.spawn(take_each(clients[task % 4].clone(), task, KEYS));
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    // Two clients at a time run through the same keys, so that most are handed on.
    for task in 0..TASKS {
        tasks.spawn(take_each(clients[0].clone(), task, WANTED));
        tasks.spawn(take_each(clients[1].clone(), task, WANTED));
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    for heir in heirs {
        heir.await.unwrap().unwrap().release().await.unwrap();
    }
    kept.release().await.unwrap();
    let handed: u64 = clients.iter().map(|locks| locks.stats().handoffs_remote).sum();
    assert!(handed > 0, "no key was contended for");

    let left = || server.keys().into_iter().map(|key| key.name).collect::<Vec<_>>();
    // A line lives for 15 s behind its last recheck, which is longer than the patience of a test.
    let ages = server.keys().into_iter().filter(|key| !key.is_clock());
    for line in ages {
        assert!(line.ttl_ms.is_some_and(|ttl| ttl <= 15_000), "{line:?}");
        server.command::<u64>(&["PEXPIRE", &line.name, "1"]);
    }
    eventually("the lines of the dead have ended", || left() == ["lock:clock"]).await;
    nothing_left(&server, clients).await;
}
