//! Servers that restart, hang, forget and are full.

use std::path::{Path, PathBuf};

use lock_core::LockClient;
use lock_core::error::LossReason;
use tests::checker::Checker;
use tests::redis::{RedisOptions, RedisServer};
use tests::wait::{eventually, within};

use crate::support::*;

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// F07 (V2, V6): with an append-only file a killed server comes back with the lock, and the hold
/// goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_outlives_a_killed_server_that_kept_its_file() {
    let mut server = RedisServer::with(RedisOptions::new().aof());
    let locks = connect(&server.url(), ms(6_000)).await;
    let guard = locks.lock("k").await.unwrap();
    server.restart();
    assert!(server.key("lock:{k}").is_some());
    eventually("a renewal at the new server", || locks.stats().renewals >= 1).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F07 (V1, V2, V6): a server that lost the last second of its file is one that forgot the grants
/// of that second. The loss of the second is made by putting back a copy of the file, as a
/// process that is killed loses nothing that it has handed to the kernel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grants_of_a_lost_second_are_told_and_their_tokens_are_not_given_again() {
    let mut server = RedisServer::with(RedisOptions::new().aof());
    let locks = connect(&server.url(), ms(6_000)).await;
    locks.lock("k").await.unwrap().release().await.unwrap();
    let (_, folder): (String, PathBuf) = {
        let pair: (String, String) = server.command(&["CONFIG", "GET", "dir"]);
        (pair.0, PathBuf::from(pair.1).join("appendonlydir"))
    };
    let kept = tempfile::tempdir().unwrap();
    copy_tree(&folder, kept.path());
    let guard = locks.lock("k").await.unwrap();
    server.kill();
    std::fs::remove_dir_all(&folder).unwrap();
    copy_tree(kept.path(), &folder);
    server.restart();
    assert!(server.key("lock:{k}").is_none());
    assert_eq!(within("the loss", guard.lost()).await.reason(), LossReason::Taken);
    let rival = connect(&server.url(), ms(6_000)).await;
    let next = rival.lock("k").await.unwrap();
    assert!(next.token() > guard.token());
    assert!(guard.release().await.unwrap_err().is_not_held());
    next.release().await.unwrap();
    nothing_left(&server, [locks, rival]).await;
}

/// F27 (V1, V2, V6): scripts that are flushed in traffic are loaded again, and nobody notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_are_flushed_in_traffic_are_loaded_again_unnoticed() {
    let (server, history) = (RedisServer::start(), History::new());
    let clients =
        [connect(&server.url(), ms(10_000)).await, connect(&server.url(), ms(10_000)).await];
    let mut tasks = Vec::new();
    for (n, locks) in clients.iter().enumerate() {
        for task in 0..2 {
            let actor = history.actor(&format!("p{n}/{task}"), locks);
            tasks.push(tokio::spawn(async move {
                for _ in 0..40 {
                    let (guard, _) = actor.acquire("k", ms(20_000)).await;
                    let guard = guard.unwrap();
                    assert!(actor.write(&guard).await);
                    actor.release(guard).await.unwrap();
                }
            }));
        }
    }
    let flushes = async {
        let mut flushes = 0;
        while tasks.iter().any(|task| !task.is_finished()) {
            server.command::<()>(&["SCRIPT", "FLUSH"]);
            flushes += 1;
            tokio::time::sleep(ms(5)).await;
        }
        flushes
    };
    assert!(within("the traffic", flushes).await > 1);
    for task in tasks {
        task.await.unwrap();
    }
    let report = history.check(Checker::new().exclusive());
    assert_eq!((report.grants, report.writes_accepted), (160, 160));
    nothing_left(&server, clients).await;
}

/// F29 (V1): a hold that was renewed once is told at once that its key was deleted or overwritten,
/// long before its next renewal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_by_hand_is_told_at_once_to_a_hold_that_was_renewed() {
    let server = RedisServer::start();
    let (locks, other) =
        (connect(&server.url(), ms(60_000)).await, connect(&server.url(), ms(60_000)).await);
    for throw in [&["DEL", "lock:{k}"][..], &["SET", "lock:{k}", "another"], &["FLUSHALL"]] {
        let guard = locks.lock("k").await.unwrap();
        // Somebody who waits for a moment makes the holder ask; a renewal by time is 20 s away.
        let (before, waiting) = (locks.stats().renewals, other.lock("k").acquire());
        let renewed = eventually("a renewal", || locks.stats().renewals > before);
        tokio::select! {
            _ = waiting => panic!("it is held"),
            () = renewed => {}
        }
        line_of(&server, "k", 0).await;
        server.command::<redis::Value>(throw);
        let lost = within("the loss", guard.lost()).await;
        assert_eq!(lost.reason(), LossReason::Taken, "{throw:?}");
        server.command::<u64>(&["DEL", "lock:{k}"]);
    }
    nothing_left(&server, [locks, other]).await;
}

/// F29 (V1): the same behind the first renewal that a client ever sends, for which its connection
/// is made: nobody has the holder ask before the next, which is due 2 s later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_by_hand_is_told_at_once_behind_the_first_renewal_of_a_client() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(6_000)).await;
    let guard = locks.lock("k").await.unwrap();
    eventually("a renewal", || locks.stats().renewals >= 1).await;
    let deleted = Stopwatch::start();
    server.command::<u64>(&["DEL", "lock:{k}"]);
    let lost = within("the loss", guard.lost()).await;
    assert_eq!(lost.reason(), LossReason::Taken);
    assert!(deleted.own() < ms(1_000), "{:?}", deleted.elapsed());
    drop(guard);
    nothing_left(&server, [locks]).await;
}

/// F06 (V1): a server that comes back without its data is asked for every hold at once, long before
/// the next renewal of any; nobody new is given the key here before it has answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_are_told_as_soon_as_a_server_is_back_without_its_data() {
    let mut server = RedisServer::start();
    let locks = connect(&server.url(), ms(60_000)).await;
    let mut guards = Vec::new();
    for n in 0..200 {
        guards.push(locks.lock(format!("k:{n}")).await.unwrap());
    }
    server.restart();
    for guard in &guards {
        assert_eq!(within("the loss", guard.lost()).await.reason(), LossReason::Taken);
    }
    let again = locks.lock("k:0").await.unwrap();
    assert!(again.token() > guards[0].token());
    again.release().await.unwrap();
    drop(guards);
    nothing_left(&server, [locks]).await;
}

/// F34 (V8): a lock of another library that looks like an owner of ours, but for its length, is not
/// marked by who waits behind it: its holder's compare-and-delete would fail for ever.
#[tokio::test]
async fn a_foreign_lock_that_looks_like_ours_is_left_as_it_is() {
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(10_000)).await;
    let foreign = "0123456789abcdef0123456789abcdef:17";
    server.command::<()>(&["SET", "lock:{k}", foreign, "NX"]);
    let waiting = tokio::spawn(locks.lock("k").acquire());
    line_of(&server, "k", 1).await;
    assert_eq!(server.command::<String>(&["GET", "lock:{k}"]), foreign);
    server.command::<u64>(&["DEL", "lock:{k}"]);
    waiting.await.unwrap().unwrap().release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F29 (V1, V2, V6): a key that was deleted by hand, with everything else, or evicted, is lost at
/// the next renewal; the next grant has a higher token.
#[tokio::test]
async fn a_lock_that_the_server_threw_away_is_told_at_the_next_renewal() {
    type Throw = fn(&RedisServer);
    let ways: [(&str, Throw); 4] = [
        ("DEL", |server| server.command::<()>(&["UNLINK", "lock:{k}"])),
        ("DEL all", |server| {
            let all = ["UNLINK", "lock:{k}", "lock:{k}:queue", "lock:{k}:due", "lock:clock"];
            server.command::<()>(&all);
        }),
        ("FLUSHALL", |server| server.command::<()>(&["FLUSHALL"])),
        ("eviction", |server| {
            server.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
            server.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
            let _ = server.try_command::<()>(&["SET", "bait", "v"]);
            server.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
        }),
    ];
    for (way, throw) in ways {
        let (server, history) = (RedisServer::start(), History::new());
        let locks = connect(&server.url(), ms(2_400)).await;
        let other = connect(&server.url(), ms(2_400)).await;
        let holder = history.actor("holder", &locks);
        let waiter = history.actor("waiter", &other);
        let (guard, _) = holder.acquire("k", ms(9_000)).await;
        let guard = guard.unwrap();
        let waiting = tokio::spawn({
            let waiter = waiter.clone();
            async move { waiter.acquire("k", ms(5_000)).await.0 }
        });
        line_of(&server, "k", 1).await;
        throw(&server);
        assert_eq!(holder.lost(&guard).await.reason(), LossReason::Taken, "{way}");
        let next = within("the waiter", waiting).await.unwrap().unwrap();
        assert!(next.token() > guard.token(), "a finding of safety: {way}");
        assert!(waiter.write(&next).await && !holder.write(&guard).await, "{way}");
        assert!(holder.release(guard).await.unwrap_err().is_not_held(), "{way}");
        waiter.release(next).await.unwrap();
        history.check(Checker::new());
        server.command::<u64>(&["DEL", "bait"]);
        drop((holder, waiter));
        nothing_left(&server, [locks, other]).await;
    }
}

/// V8: a server that has all the clients that it takes says so and hangs up. Whoever connects, or
/// has to connect anew, is told in its words.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_full_is_told_of_in_its_own_words() {
    const WORD: &str = "max number of clients reached";
    let server = RedisServer::start();
    let locks = connect(&server.url(), ms(2_000)).await;
    // While it is full, no other connection can make room.
    let mut operator = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut set = |what: &[&str]| {
        redis::cmd(what[0]).arg(&what[1..]).query::<redis::Value>(&mut operator).unwrap();
    };
    set(&["CONFIG", "SET", "maxclients", "1"]);
    // A server that is late with its word hangs up without it.
    let connects = async {
        let mut told = 0;
        while told < 20 {
            let error = LockClient::connect(&server.url()).await.unwrap_err();
            told += usize::from(error.to_string().contains(WORD));
        }
    };
    within("its word to whoever connects", connects).await;
    set(&["CLIENT", "KILL", "SKIPME", "yes"]);
    let acquires = async {
        loop {
            let error = locks.lock("k").wait(ms(1_500)).await.unwrap_err();
            assert!(error.is_unavailable() && error.is_retryable(), "{error:?}");
            if format!("{error:?}").contains(WORD) {
                return;
            }
        }
    };
    within("its word to whoever connects anew", acquires).await;
    set(&["CONFIG", "SET", "maxclients", "1000"]);
    locks.lock("k").wait(ms(9_000)).await.unwrap().release().await.unwrap();
    nothing_left(&server, [locks]).await;
}
