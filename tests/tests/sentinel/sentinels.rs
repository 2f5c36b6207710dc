//! Sentinels that are dead, that hang, that refuse, or that nobody named.

use tests::stalls::Stopwatch;

use lock_core::LockClient;
use lock_core::error::ConnectError;
use lock_core::idempotency::{Fingerprint, Found, RecordId, RecordStore};
use lock_core::redis::RedisRecords;

use crate::support::*;

/// A dead sentinel and one that hangs, both the first that are named, cost less than the time that
/// one of them is given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_or_hanging_sentinel_at_the_head_of_the_list_costs_no_time() {
    let (_turn, mut set) = a_set().await;
    let master = set.master();
    set.sentinel(0).freeze();
    let start = Stopwatch::start();
    let locks = connect(&set.url(), ms(10_000)).await;
    assert!(start.own() < ms(900), "{:?}", start.elapsed());
    set.sentinel(0).kill();
    let start = Stopwatch::start();
    let more = connect(&set.url(), ms(10_000)).await;
    assert!(start.own() < ms(900), "{:?}", start.elapsed());
    more.lock("k").await.unwrap().release().await.unwrap();
    nothing_left(&set, &[master], [locks, more]).await;
}

/// Those that the URL does not name are learnt: the one that it names may die before the switch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_is_followed_by_sentinels_that_the_url_did_not_name() {
    let (_turn, mut set) = a_set().await;
    let old = set.master();
    let locks = connect(&set.url_of(&[0]), ms(10_000)).await;
    set.sentinel(0).kill();
    let new = set.failover().await;
    let start = Stopwatch::start();
    let guard = locks.lock("k").await.unwrap();
    assert!(start.own() < FOLLOWED_WITHIN, "{:?}", start.elapsed());
    assert!(set.server(new).key("lock:{k}").is_some());
    guard.release().await.unwrap();
    nothing_left(&set, &[old, new], [locks]).await;
}

/// V3, V5: with all sentinels gone, a master that is well goes on to serve: holds are renewed, and
/// a connection that breaks is made again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_go_on_and_keys_are_granted_while_all_sentinels_are_gone() {
    let (_turn, mut set) = a_set().await;
    let master = set.master();
    let locks = connect(&set.url(), ms(6_000)).await;
    let held = locks.lock("held").await.unwrap();
    for sentinel in 0..3 {
        set.sentinel(sentinel).kill();
    }
    let renewals = locks.stats().renewals;
    // For longer than what they said last counts as news.
    eventually("4 s of renewals", || locks.stats().renewals >= renewals + 2).await;
    set.server(master).command::<u64>(&["CLIENT", "KILL", "TYPE", "normal"]);
    set.server(master).command::<u64>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    locks.lock("k").await.unwrap().release().await.unwrap();
    assert!(held.is_held());
    held.release().await.unwrap();
    let error = LockClient::connect(&set.url()).await.unwrap_err();
    assert!(error.to_string().contains("sentinel"), "{error}");
    nothing_left(&set, &[master], [locks]).await;
}

/// F31 (V8): a wrong password of either is told at once and for good, with no secret in the error;
/// so is a name that no sentinel knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_or_name_is_permanent_and_names_no_secret() {
    let (_turn, set) = a_set_with(to_cut()).await;
    let good = set.url();
    connect(&good, ms(10_000)).await.lock("k").await.unwrap().release().await.unwrap();
    let (server, sentinel) =
        (good.replace(SERVER_PASSWORD, "hunter2"), good.replace(SENTINEL_PASSWORD, "hunter2"));
    let none = good.replace(&format!("?sentinel_password={SENTINEL_PASSWORD}"), "");
    let name = good.replace(set.name(), "another");
    for (url, says) in
        [(server, "WRONGPASS"), (sentinel, "sentinel"), (none, "sentinel"), (name, "another")]
    {
        let start = Stopwatch::start();
        let error = LockClient::connect(&url).await.unwrap_err();
        assert!(start.own() < ms(1_500), "{:?}", start.elapsed());
        let ConnectError::Store(fault) = &error else { panic!("{error:?}") };
        assert!(!fault.is_transient(), "{error}");
        assert!(error.to_string().contains(says), "{says}: {error}");
        let all = format!("{error} {error:?}");
        for secret in ["hunter2", SERVER_PASSWORD, SENTINEL_PASSWORD] {
            assert!(!all.contains(secret), "{all}");
        }
    }
}

/// The records of the idempotency layer follow the master, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_served_by_the_new_master() {
    let (_turn, set) = a_set().await;
    let records = RedisRecords::connect(&set.url()).await.unwrap();
    let peek = async || {
        let (id, fingerprint) = (RecordId::from_bytes([1; 32]), Fingerprint::new([2; 32]));
        records.peek(id, fingerprint).await
    };
    assert!(matches!(peek().await.unwrap(), Found::Absent));
    set.failover().await;
    let start = Stopwatch::start();
    while let Err(fault) = peek().await {
        assert!(fault.is_transient() && start.own() < FOLLOWED_WITHIN, "{fault}");
    }
    assert!(matches!(peek().await.unwrap(), Found::Absent));
}

/// A machine that stood still for a moment costs no test half a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fixtures_sentinels_switch_though_they_stood_still() {
    let (_turn, mut set) = a_hasty_set().await;
    let old = set.master();
    for sentinel in 0..3 {
        set.sentinel(sentinel).freeze();
    }
    // The gap that sentinels take for a clock that cannot be trusted is 2 s.
    tokio::time::sleep(ms(2_300)).await;
    for sentinel in 0..3 {
        set.sentinel(sentinel).thaw();
    }
    set.server_mut(old).kill();
    eventually("a sentinel names another master", || set.has_begun_to_switch(old)).await;
}
