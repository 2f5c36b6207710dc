//! A fleet that is upgraded one process at a time: clients of today and of an earlier version on
//! one key.
//!
//! Version 1 wrote `claim.session` at the lock, had its tokens from a fence per key, and knew of no
//! mark. Its scripts are those beside this file.

#![allow(clippy::disallowed_methods)]

mod version2;

use std::time::Duration;

use futures_util::StreamExt;
use lock_core::{LockClient, LockOptions};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{Msg, Value};
use tests::redis::RedisServer;
use tests::stalls::Stopwatch;
use tests::wait::{eventually, within};
use tokio::time::timeout;

const LOCK: &str = "lock:{k}";
const KEYS: [&str; 4] = [LOCK, "lock:{k}:queue", "lock:{k}:due", "lock:{k}:fence"];

const LEASE_MS: u64 = 30_000;

/// The tokens that version 1 asked for at each grant; blocks ended at the clock, and began up to
/// 131 ms before.
const TOKENS: u64 = 1 << 20;

/// How long a waiter counts as alive, and how long a grant that was pushed to it lives.
const CLAIM_LEASE_MS: u64 = 1_500;

/// How often both ask again, and version 1 where the holder was a stranger to it, as is one of
/// today.
const RECHECK_MS: u64 = 500;
const RECHECK_FOREIGN_MS: u64 = 50;

/// The time that a busy machine may add to a bound.
const SLACK: Duration = Duration::from_millis(1_500);

fn script(body: &str) -> String {
    body.replace("--COMMON", include_str!("common.lua"))
}

/// A process of version 1 with one claim at a time.
struct Version1 {
    session: String,
    /// The claim, and the session behind it.
    owner: String,
    connection: MultiplexedConnection,
    pushes: PubSub,
}

/// The answer to an attempt of version 1.
#[derive(Debug, PartialEq)]
enum Answer {
    Granted { first: u64 },
    Blocked { ahead: u64, recheck: Duration, latest: u64 },
}

fn owner(session: &str) -> String {
    format!("{:032x}.{session}", fastrand::u128(..))
}

impl Version1 {
    async fn connect(server: &RedisServer) -> Self {
        let session = format!("{:016x}", fastrand::u64(..));
        let owner = owner(&session);
        let client = redis::Client::open(server.url()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut pushes = client.get_async_pubsub().await.unwrap();
        pushes.subscribe(format!("lock:push:{session}")).await.unwrap();
        Self { session, owner, connection, pushes }
    }

    async fn attempt(&mut self, join: bool) -> Answer {
        let mut call = redis::cmd("EVAL");
        call.arg(script(include_str!("attempt.lua")))
            .arg(KEYS.len())
            .arg(&KEYS)
            .arg(&self.owner)
            .arg(LEASE_MS);
        call.arg(TOKENS).arg(u8::from(join)).arg(CLAIM_LEASE_MS).arg(CLAIM_LEASE_MS);
        call.arg(LEASE_MS + 3_600_000);
        let answer: Vec<i64> = call.query_async(&mut self.connection).await.unwrap();
        let number = |at: usize| u64::try_from(answer[at]).unwrap();
        if answer[0] == 1 {
            return Answer::Granted { first: number(1) };
        }
        let mut recheck_ms = if answer[3] == 1 { RECHECK_FOREIGN_MS } else { RECHECK_MS };
        if answer[2] >= 0 {
            recheck_ms = recheck_ms.min(number(2) + 1);
        }
        let recheck = Duration::from_millis(recheck_ms);
        Answer::Blocked { ahead: number(1), recheck, latest: number(4) }
    }

    /// Takes the free key; the token.
    async fn take(&mut self) -> u64 {
        match self.attempt(false).await {
            Answer::Granted { first } => first,
            blocked => panic!("{blocked:?}"),
        }
    }

    /// Stands in line, behind so many that came before.
    async fn stand(&mut self, behind: u64) {
        match self.attempt(true).await {
            Answer::Blocked { ahead, .. } => assert_eq!(ahead, behind + 1),
            granted @ Answer::Granted { .. } => panic!("{granted:?}"),
        }
    }

    /// Waits as version 1 did, by pushes and rechecks; the token.
    async fn acquire(&mut self) -> u64 {
        let mut handed = None;
        let mut latest = u64::MAX;
        loop {
            // The token is of an earlier hand-off if it is not above what the server said since.
            if let Some(first) = handed.take().filter(|first| *first > latest) {
                return first;
            }
            match self.attempt(true).await {
                Answer::Granted { first } => return first,
                Answer::Blocked { recheck, latest: last, .. } => {
                    latest = last;
                    handed = timeout(recheck, self.handed()).await.ok();
                }
            }
        }
    }

    /// The first token of the next grant that is pushed to the claim.
    async fn handed(&mut self) -> u64 {
        let mut messages = self.pushes.on_message();
        loop {
            let message: Msg = messages.next().await.expect("the server pushes");
            let text: String = message.get_payload().unwrap();
            let words: Vec<&str> = text.split(' ').collect();
            if words[0] == "g" && words[1] == self.owner {
                return words[2].parse().unwrap();
            }
        }
    }

    /// 1 released, 2 handed on, 0 not held. The next claim is another, so that no push of the past
    /// is for it.
    async fn withdraw(&mut self) -> i64 {
        let mut call = redis::cmd("EVAL");
        call.arg(script(include_str!("withdraw.lua")))
            .arg(KEYS.len())
            .arg(&KEYS)
            .arg(&self.owner)
            .arg(TOKENS);
        self.owner = owner(&self.session);
        match call.query_async(&mut self.connection).await.unwrap() {
            Value::Int(answer) => answer,
            other => panic!("{other:?}"),
        }
    }
}

async fn client(server: &RedisServer) -> LockClient {
    let lease = Duration::from_millis(LEASE_MS);
    let options = LockOptions::new().with_lease(lease).with_wait(Duration::from_secs(9));
    LockClient::builder(server.url()).defaults(options).connect().await.expect("a client")
}

/// A client of today that waits for the key behind so many.
async fn waiter(
    server: &RedisServer,
    locks: &LockClient,
    behind: u64,
) -> tokio::task::JoinHandle<Result<lock_core::LockGuard, lock_core::AcquireError>> {
    let waiting = tokio::spawn(locks.lock("k").acquire());
    line_of(server, behind + 1).await;
    waiting
}

async fn line_of(server: &RedisServer, n: u64) {
    eventually(&format!("{n} in line"), || server.command::<u64>(&["LLEN", KEYS[1]]) == n).await;
}

fn value(server: &RedisServer) -> Option<String> {
    server.command(&["GET", LOCK])
}

#[tokio::test]
async fn a_key_that_one_version_holds_is_busy_for_the_other() {
    let server = RedisServer::start();
    let (mut old, locks) = (Version1::connect(&server).await, client(&server).await);
    let guard = locks.lock("k").await.unwrap();
    let held = value(&server);
    assert!(matches!(old.attempt(false).await, Answer::Blocked { ahead: 1, .. }));
    assert_eq!((value(&server), old.withdraw().await), (held, 0), "the holder is as it was");
    guard.release().await.unwrap();
    old.take().await;
    assert!(locks.lock("k").try_acquire().await.unwrap().is_none());
    let short = Duration::from_millis(50);
    let error = locks.lock("k").wait(short).acquire().await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    // It leaves the line behind its answer.
    line_of(&server, 0).await;
    assert_eq!(value(&server).as_ref(), Some(&old.owner));
    assert_eq!(old.withdraw().await, 1);
    assert_eq!(value(&server), None);
}

/// Two processes of each version take turns, and are never inside together.
#[tokio::test]
async fn both_versions_take_turns_and_are_never_inside_together() {
    const ROUNDS: u64 = 40;
    let server = RedisServer::start();
    let counter = redis::Client::open(server.url()).unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..4 {
        let locks = client(&server).await;
        let mut counter = counter.get_multiplexed_async_connection().await.unwrap();
        let mut old = Version1::connect(&server).await;
        tasks.spawn(async move {
            let mut overlaps = 0;
            for _ in 0..ROUNDS {
                let guard = match n % 2 {
                    0 => Some(locks.lock("k").acquire().await.unwrap()),
                    _ => {
                        within("the turn of version 1", old.acquire()).await;
                        None
                    }
                };
                let mut count = redis::cmd("INCRBY");
                let inside: i64 =
                    count.arg("inside").arg(1).query_async(&mut counter).await.unwrap();
                overlaps += u64::from(inside != 1);
                redis::cmd("DECR").arg("inside").exec_async(&mut counter).await.unwrap();
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

#[tokio::test]
async fn a_release_of_version_1_hands_on_to_a_waiter_of_today() {
    let server = RedisServer::start();
    let (mut old, locks) = (Version1::connect(&server).await, client(&server).await);
    let token = old.take().await;
    let waiting = waiter(&server, &locks, 0).await;
    assert_eq!(old.withdraw().await, 2, "handed on");
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token().get() > token);
    assert_eq!(locks.stats().handoffs_remote, 1);
    guard.release().await.unwrap();
    assert_eq!(value(&server), None);
}

/// A holder of today is not told of a waiter of version 1, which asks often instead.
#[tokio::test]
async fn version_1_behind_a_holder_of_today_has_the_key_with_its_own_recheck() {
    let server = RedisServer::start();
    let (mut old, locks) = (Version1::connect(&server).await, client(&server).await);
    let guard = locks.lock("k").await.unwrap();
    let token = guard.token().get();
    let Answer::Blocked { recheck, .. } = old.attempt(true).await else { panic!("granted") };
    assert_eq!(recheck, Duration::from_millis(RECHECK_FOREIGN_MS));
    let waiting = tokio::spawn(async move { (old.acquire().await, old) });
    guard.release().await.unwrap();
    let released = Stopwatch::start();
    let (next, mut old) = within("version 1", waiting).await.unwrap();
    assert!(released.own() < recheck + SLACK, "{:?}", released.elapsed());
    assert!(next > token, "{next} after {token}");
    assert_eq!(old.withdraw().await, 1);
}

#[tokio::test]
async fn version_1_in_front_of_a_waiter_of_today_is_served_first_and_hands_on() {
    let server = RedisServer::start();
    let mut old = Version1::connect(&server).await;
    let (first, last) = (client(&server).await, client(&server).await);
    let guard = first.lock("k").await.unwrap();
    let token = guard.token().get();
    old.stand(0).await;
    let waiting = waiter(&server, &last, 1).await;
    guard.release().await.unwrap();
    assert_eq!(value(&server).as_ref(), Some(&old.owner), "unmarked, though one waits behind it");
    let pushed = within("the push", old.handed()).await;
    assert!(pushed > token, "{pushed} after {token}");
    assert!(!waiting.is_finished());
    assert_eq!(old.withdraw().await, 2);
    let guard = waiting.await.unwrap().unwrap();
    assert!(guard.token().get() > pushed);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_waiter_of_today_in_front_of_version_1_is_served_first_and_hands_on() {
    for first_is_old in [false, true] {
        let server = RedisServer::start();
        let (mut old, locks) = (Version1::connect(&server).await, client(&server).await);
        let (mut first_old, first) = (Version1::connect(&server).await, client(&server).await);
        let (mut token, mut guard) = (0, None);
        match first_is_old {
            true => token = first_old.take().await,
            false => guard = Some(first.lock("k").await.unwrap()),
        }
        let waiting = waiter(&server, &locks, 0).await;
        old.stand(1).await;
        match guard {
            None => assert_eq!(first_old.withdraw().await, 2),
            Some(guard) => {
                token = guard.token().get();
                guard.release().await.unwrap();
            }
        }
        let guard = waiting.await.unwrap().unwrap();
        let next = guard.token().get();
        assert!(next > token, "{next} after {token}");
        let waiting = tokio::spawn(async move { (old.acquire().await, old) });
        guard.release().await.unwrap();
        let (last, mut old) = within("version 1", waiting).await.unwrap();
        assert!(last > next, "{last} after {next}");
        assert_eq!(old.withdraw().await, 1);
        assert_eq!(value(&server), None);
    }
}

/// Version 1 hands a key on without the mark, whoever waits behind. The next of today marks it with
/// its own recheck.
#[tokio::test]
async fn a_line_of_today_goes_on_behind_a_hand_off_of_version_1() {
    let server = RedisServer::start();
    let mut old = Version1::connect(&server).await;
    let (first, last) = (client(&server).await, client(&server).await);
    old.take().await;
    let front = waiter(&server, &first, 0).await;
    let back = waiter(&server, &last, 1).await;
    assert_eq!(old.withdraw().await, 2);
    front.await.unwrap().unwrap().release().await.unwrap();
    let released = Stopwatch::start();
    back.await.unwrap().unwrap().release().await.unwrap();
    assert!(released.own() < Duration::from_millis(RECHECK_MS) + SLACK);
}

#[tokio::test]
async fn what_version_1_wrote_is_never_marked() {
    let server = RedisServer::start();
    let (mut old, locks) = (Version1::connect(&server).await, client(&server).await);
    let owner = old.owner.clone();
    old.take().await;
    let rival = client(&server).await;
    let [front, back] = [waiter(&server, &locks, 0).await, waiter(&server, &rival, 1).await];
    // Each asks again in this time, and would mark it then.
    let asked = locks.stats().store_requests + rival.stats().store_requests;
    eventually("rechecks", || {
        assert_eq!(value(&server).as_ref(), Some(&owner));
        locks.stats().store_requests + rival.stats().store_requests >= asked + 4
    })
    .await;
    assert!(locks.lock("k").try_acquire().await.unwrap().is_none());
    assert_eq!(value(&server).as_ref(), Some(&owner));
    // Its release compares with what it wrote.
    assert_eq!(old.withdraw().await, 2);
    front.await.unwrap().unwrap().release().await.unwrap();
    back.await.unwrap().unwrap().release().await.unwrap();
}

/// A key that version 1 used before has a fence for an hour, of which today's clients know nothing:
/// a block of version 1 reaches back 2^20 tokens, 0.13 s, and not behind what it gave itself.
#[tokio::test]
async fn version_1_goes_back_by_a_block_at_most_where_it_has_used_a_key_before() {
    let server = RedisServer::start();
    let (mut old, locks) = (Version1::connect(&server).await, client(&server).await);
    let (mut last, mut last_of_its_own) = (0, 0);
    for _ in 0..3 {
        let token = old.take().await;
        assert!(
            token + (1 << 20) > last,
            "a finding of safety: version 1 has {token} after {last}"
        );
        assert!(token > last_of_its_own);
        last_of_its_own = token;
        assert_eq!(old.withdraw().await, 1);
        let guard = locks.lock("k").await.unwrap();
        last = guard.token().get();
        assert!(last > token, "today has {last} after {token}");
        guard.release().await.unwrap();
    }
}

/// A key is handed to version 1 while its recheck is under way, so that the answer to that comes
/// before the push. The fence is that of its own last time.
#[tokio::test]
async fn tokens_grow_where_version_1_finds_that_it_was_handed_a_key() {
    let server = RedisServer::start();
    let (mut old, locks) = (Version1::connect(&server).await, client(&server).await);
    let used = old.take().await;
    old.withdraw().await;
    let guard = locks.lock("k").await.unwrap();
    let token = guard.token().get();
    assert!(token > used);
    old.stand(0).await;
    let rival = client(&server).await;
    let waiting = waiter(&server, &rival, 1).await;
    guard.release().await.unwrap();
    assert_eq!(value(&server).as_ref(), Some(&old.owner), "handed on");
    let found = old.take().await;
    assert!(found > token, "version 1 has {found} after {token}, and had {used} before");
    old.withdraw().await;
    waiting.await.unwrap().unwrap().release().await.unwrap();
}
