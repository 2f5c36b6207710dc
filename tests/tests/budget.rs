//! Many locks in one task, on the thread of `block_on`: Tokio gives each poll of a task a budget of
//! 128 steps, and from then on every channel and socket says that it is not ready, and wakes at once.

#![allow(clippy::disallowed_methods)]

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use lock_core::idempotency::{Begun, Fingerprint, Idempotency, Scope};
use lock_core::redis::RedisRecords;
use lock_core::{LockBuilder, LockClient, LockGuard, LockOptions};
use tests::blocked::{alone, workers};
use tests::redis::RedisServer;
use tests::support::{Stopwatch, ms, nothing_left};
use tests::wait::within;
use tokio::runtime::Runtime;

/// How long any of this may take: a request that spins is given up after two seconds.
const IN_TIME: std::time::Duration = ms(1_500);

/// As many at once as an application may have, below and above what one poll may do.
const CROWDS: [usize; 4] = [1, 100, 160, 1_000];

type Work = for<'a> fn(&'a LockClient, &'a str, usize) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Has the work done by the task of `block_on` itself, of both kinds of runtime. `#[tokio::test]`
/// would do as much; a task that is spawned would not.
fn on_block_on(crowds: &[usize], work: Work) {
    let server = RedisServer::start();
    let runtimes: [fn() -> Runtime; 2] = [alone, || workers(2)];
    for (runtime, crowd) in runtimes.iter().flat_map(|it| crowds.iter().map(move |of| (it, *of))) {
        runtime().block_on(async {
            let options = LockOptions::new().with_wait(ms(20_000)).with_lease(ms(30_000));
            let builder = LockClient::builder(server.url()).defaults(options);
            let locks = builder.connect().await.expect("a client");
            let began = Stopwatch::start();
            within("all of it", work(&locks, &server.url(), crowd)).await;
            assert!(began.own() < IN_TIME, "{crowd}: {began:?} {:?}", began.elapsed());
            let left = || {
                let keys = server.keys().into_iter().filter(|key| key.name.starts_with("lock:"));
                keys.filter(|key| !key.is_clock()).map(|key| key.name).collect()
            };
            nothing_left([locks], left).await;
        });
    }
}

/// Has all of them, then gives all of them back.
async fn at_once(locks: impl Iterator<Item = LockBuilder>) {
    let guards = try_join_all(locks.map(LockBuilder::acquire)).await.expect("all can be had");
    try_join_all(guards.into_iter().map(LockGuard::release)).await.expect("releases");
}

#[test]
fn keys_of_their_own_are_had_and_given_back() {
    on_block_on(&CROWDS, |locks, _, crowd| {
        Box::pin(async move {
            at_once((0..crowd).map(|n| locks.lock(format!("k:{n}")))).await;
        })
    });
}

#[test]
fn readers_and_permits_of_one_key_are_had_and_given_back() {
    on_block_on(&CROWDS, |locks, _, crowd| {
        Box::pin(async move {
            at_once((0..crowd).map(|_| locks.lock("read").shared())).await;
            let of = u32::try_from(crowd.min(200)).expect("few");
            at_once((0..of).map(|_| locks.lock("permits").permits(of))).await;
        })
    });
}

#[test]
fn one_key_that_all_want_is_handed_from_one_to_the_next() {
    on_block_on(&CROWDS, |locks, _, crowd| {
        Box::pin(async move {
            let turns = (0..crowd).map(|_| async {
                let guard = locks.lock("hot").await.expect("a turn");
                guard.release().await.expect("a release");
            });
            join_all(turns).await;
        })
    });
}

#[test]
fn several_keys_at_once_are_had_and_given_back() {
    on_block_on(&[1, 50], |locks, _, crowd| {
        Box::pin(async move {
            let all = (0..crowd).map(|n| {
                let keys = (0..4).map(move |k| format!("all:{n}:{k}"));
                locks.lock_all(keys).acquire()
            });
            let guards = try_join_all(all).await.expect("free keys");
            let releases = guards.into_iter().map(lock_core::multi::MultiLockGuard::release);
            try_join_all(releases).await.expect("releases");
        })
    });
}

#[test]
fn terms_are_had_and_resigned() {
    on_block_on(&[1, 160], |locks, _, crowd| {
        Box::pin(async move {
            let terms = (0..crowd).map(|n| locks.election(format!("e:{n}")).run_for("me"));
            let terms = try_join_all(terms).await.expect("free elections");
            let mut followers: Vec<_> =
                (0..crowd).map(|n| locks.election(format!("e:{n}")).observe()).collect();
            let told = join_all(followers.iter_mut().map(lock_core::futures::Observe::next)).await;
            for leader in told {
                let leader = leader.expect("it goes on").expect("an answer").expect("a leader");
                assert_eq!(&*leader.value, "me");
            }
            drop(followers);
            try_join_all(terms.into_iter().map(lock_core::Term::resign)).await.expect("the ends");
        })
    });
}

#[test]
fn idempotent_executions_run_and_are_replayed() {
    on_block_on(&[1, 160], |locks, url, crowd| {
        Box::pin(async move {
            let records = RedisRecords::connect(url).await.expect("records");
            let once = Idempotency::new("tests", locks.clone(), records);
            let scope = Scope::of("budget");
            let asked = Fingerprint::new([1; 32]);
            // The records of one runtime are there in the next.
            static KEYS: AtomicU32 = AtomicU32::new(0);
            let runs = (0..crowd).map(|_| {
                let (once, scope) = (&once, &scope);
                let key = KEYS.fetch_add(1, Ordering::Relaxed).to_string();
                async move { once.begin(scope, key.as_bytes(), asked).await }
            });
            let begun = try_join_all(runs).await.expect("all begin");
            let completions = begun.into_iter().map(|begun| match begun {
                Begun::Run(execution) => execution.complete(Bytes::from_static(b"done")),
                other => panic!("{other:?} is no run"),
            });
            try_join_all(completions).await.expect("all are on record");
        })
    });
}
