//! Version 2, which knew no modes, beside what several hold today. Its scripts are those of the
//! folder beside this file.

use std::time::Duration;

use futures_util::StreamExt;
use lock_core::{LockClient, LockGuard};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{Msg, Value};
use tests::redis::RedisServer;
use tests::wait::{eventually, within};

use crate::{CLAIM_LEASE_MS, KEYS, LEASE_MS, LOCK, RECHECK_FOREIGN_MS, client, line_of, value};

fn script(body: &str) -> String {
    body.replace("--COMMON", include_str!("version2/common.lua"))
}

/// A process of version 2 with one claim.
struct Version2 {
    owner: String,
    connection: MultiplexedConnection,
    pushes: PubSub,
}

#[derive(Debug, PartialEq)]
enum Answer {
    Granted,
    Blocked { ahead: i64, foreign: bool },
}

impl Version2 {
    async fn connect(server: &RedisServer) -> Self {
        let session = format!("{:016x}", fastrand::u64(..));
        let owner = format!("{:032x}:{session}", fastrand::u128(..));
        let client = redis::Client::open(server.url()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut pushes = client.get_async_pubsub().await.unwrap();
        pushes.subscribe(format!("lock:push:{session}")).await.unwrap();
        Self { owner, connection, pushes }
    }

    async fn call(&mut self, body: &str, args: &[&str]) -> Value {
        let mut call = redis::cmd("EVAL");
        call.arg(script(body)).arg(1).arg(LOCK).arg(args);
        call.query_async(&mut self.connection).await.unwrap()
    }

    /// `stands`: as its scripts have it.
    async fn attempt(&mut self, stands: Option<&str>) -> Answer {
        let (owner, lease) = (self.owner.clone(), LEASE_MS.to_string());
        let args = [&owner, lease.as_str()].into_iter().chain(stands).collect::<Vec<_>>();
        match self.call(include_str!("version2/attempt.lua"), &args).await {
            Value::Int(_) => Answer::Granted,
            Value::Array(answer) => match answer[..] {
                [Value::Int(1), ..] => Answer::Granted,
                [Value::Int(0), Value::Int(ahead), _, Value::Int(foreign), _] => {
                    Answer::Blocked { ahead, foreign: foreign == 1 }
                }
                _ => panic!("{answer:?}"),
            },
            answer => panic!("{answer:?}"),
        }
    }

    /// Waits as version 2 does where it takes the holder for one of another library.
    async fn acquire(&mut self) {
        let mut stands = None;
        while self.attempt(stands).await != Answer::Granted {
            stands = Some("1");
            let recheck = Duration::from_millis(RECHECK_FOREIGN_MS);
            drop(tokio::time::timeout(recheck, self.pushes.on_message().next()).await);
        }
    }

    async fn is_handed(&mut self) {
        let mut messages = self.pushes.on_message();
        loop {
            let message: Msg = within("a push", messages.next()).await.expect("a push");
            let text: String = message.get_payload().unwrap();
            if text.starts_with(&format!("g {}", self.owner)) {
                return;
            }
        }
    }

    /// 1 released, 2 handed on, 0 not held; as one that knows of others.
    async fn withdraw(&mut self) -> i64 {
        let owner = self.owner.clone();
        match self.call(include_str!("version2/withdraw.lua"), &[&owner, "0"]).await {
            Value::Int(answer) => answer,
            answer => panic!("{answer:?}"),
        }
    }
}

async fn readers(clients: [&LockClient; 2]) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for locks in clients {
        guards.push(locks.lock("k").shared().await.unwrap());
    }
    guards
}

#[tokio::test]
async fn a_key_that_several_hold_is_busy_for_version_2_and_handed_to_it_by_the_last() {
    let server = RedisServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let mut old = Version2::connect(&server).await;
    let mut guards = readers([&one, &two]).await;
    let busy = Answer::Blocked { ahead: 1, foreign: true };
    for stands in [Some("0"), None, Some("1")] {
        assert_eq!(old.attempt(stands).await, busy);
        assert_eq!(value(&server).as_deref(), Some("lock:shared"), "as it was");
    }
    // It stands in the line, so no reader overtakes it.
    let late = client(&server).await;
    assert!(late.lock("k").shared().try_acquire().await.unwrap().is_none());
    guards.pop().unwrap().release().await.unwrap();
    assert_eq!(old.attempt(Some("1")).await, busy);
    guards.pop().unwrap().release().await.unwrap();
    old.is_handed().await;
    assert_eq!(value(&server).as_ref(), Some(&old.owner));
    assert_eq!(old.withdraw().await, 1);
    assert_eq!(value(&server), None);
}

/// Nor are they let in beside a writer: they stand in line anew, behind whom it handed the key to.
#[tokio::test]
async fn readers_in_line_are_passed_over_by_a_release_of_version_2_and_come_in_behind() {
    let server = RedisServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let (mut first, mut next) =
        (Version2::connect(&server).await, Version2::connect(&server).await);
    assert_eq!(first.attempt(None).await, Answer::Granted);
    let mut waiting = Vec::new();
    for (locks, line) in [(&one, 1), (&two, 2)] {
        waiting.push(tokio::spawn(locks.lock("k").shared().acquire()));
        line_of(&server, line).await;
    }
    let behind = next.attempt(None).await;
    assert_eq!(behind, Answer::Blocked { ahead: 3, foreign: false });
    assert_eq!(first.withdraw().await, 2);
    next.is_handed().await;
    assert_eq!(value(&server).as_ref(), Some(&next.owner));
    line_of(&server, 2).await;
    assert!(waiting.iter().all(|reader| !reader.is_finished()));
    next.withdraw().await;
    for reader in waiting {
        within("a reader", reader).await.unwrap().unwrap().release().await.unwrap();
    }
    assert_eq!(value(&server), None);
}

#[tokio::test]
async fn readers_from_whom_version_2_took_the_key_are_lost_and_not_among_those_who_come_later() {
    let server = RedisServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let mut old = Version2::connect(&server).await;
    let guard = one.lock("k").shared().lease(Duration::from_millis(900)).await.unwrap();
    let forced = old.call(include_str!("version2/force_release.lua"), &[]).await;
    assert_eq!(forced, Value::Int(1));
    assert_eq!(old.attempt(None).await, Answer::Granted);
    within("the loss", guard.lost()).await;
    assert_eq!(old.withdraw().await, 1);
    let late = two.lock("k").shared().await.unwrap();
    assert_eq!(two.inspect("k").await.unwrap().holders.len(), 1);
    late.release().await.unwrap();
    assert_eq!(value(&server), None);
}

/// The lease of the holder ends while a reader waits, and one of version 2 comes by: it hands the key
/// to nobody that it does not know.
#[tokio::test]
async fn a_reader_in_line_of_a_key_whose_holder_died_lets_version_2_pass_and_comes_in_behind() {
    let server = RedisServer::start();
    let (one, two) = (client(&server).await, client(&server).await);
    let mut old = Version2::connect(&server).await;
    let guard = one.lock("k").acquire().await.unwrap();
    let reader = tokio::spawn(two.lock("k").shared().acquire());
    line_of(&server, 1).await;
    // As if its lease had ended.
    server.command::<()>(&["DEL", LOCK]);
    assert_eq!(old.attempt(Some("1")).await, Answer::Granted);
    line_of(&server, 1).await;
    assert!(!reader.is_finished());
    assert!(value(&server).unwrap().starts_with(&old.owner));
    old.withdraw().await;
    let late = within("the reader", reader).await.unwrap().unwrap();
    assert_eq!(old.attempt(Some("0")).await, Answer::Blocked { ahead: 1, foreign: true });
    late.release().await.unwrap();
    drop(guard);
    eventually("nothing is left", || value(&server).is_none()).await;
}

/// Writers of both versions and readers of today take turns: nobody is inside beside a writer.
#[tokio::test]
async fn both_versions_take_turns_and_nobody_is_inside_beside_a_writer() {
    const ROUNDS: u64 = 30;
    // A writer counts for so many that no readers make up for it.
    const WRITER: i64 = 1_000;
    assert!(CLAIM_LEASE_MS > RECHECK_FOREIGN_MS && KEYS[0] == LOCK);
    let server = RedisServer::start();
    let counter = redis::Client::open(server.url()).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..6 {
        let locks = client(&server).await;
        let mut old = Version2::connect(&server).await;
        let mut counter = counter.get_multiplexed_async_connection().await.unwrap();
        tasks.spawn(async move {
            let mut overlaps = 0;
            for _ in 0..ROUNDS {
                let wait = Duration::from_secs(60);
                let guard = match n % 3 {
                    0 => Some(locks.lock("k").shared().wait(wait).acquire().await.unwrap()),
                    1 => Some(locks.lock("k").wait(wait).acquire().await.unwrap()),
                    _ => {
                        old.acquire().await;
                        None
                    }
                };
                let by = if n % 3 == 0 { 1 } else { WRITER };
                let mut count = redis::cmd("INCRBY");
                let inside: i64 =
                    count.arg("inside").arg(by).query_async(&mut counter).await.unwrap();
                let alone = if by == 1 { inside < WRITER } else { inside == WRITER };
                overlaps += u64::from(!alone);
                let mut count = redis::cmd("DECRBY");
                count.arg("inside").arg(by).exec_async(&mut counter).await.unwrap();
                match guard {
                    Some(guard) => guard.release().await.unwrap(),
                    None => assert!(old.withdraw().await > 0),
                }
            }
            overlaps
        });
    }
    while let Some(overlaps) = tasks.join_next().await {
        assert_eq!(overlaps.unwrap(), 0);
    }
}
