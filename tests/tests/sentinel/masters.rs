//! Masters that have lost writes, that do not know that they are masters no more, or that only
//! read.

use lock_core::LockClient;
use lock_core::error::{ConnectError, LossReason};
use tests::checker::Checker;
use tests::stalls::Stopwatch;

use crate::support::*;

/// F08 (V1, V2, V3): a master that was cut off from its replicas dies. Its successor does not know
/// of the last grant and grants again; the tokens tell the two apart, and the old holder is told at
/// once, not at its lease end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_a_switch_has_lost_is_told_lost_and_its_writes_are_refused() {
    let (_turn, mut set) = a_set_with(to_cut().hasty()).await;
    let history = History::new();
    let locks = connect(&set.url(), ms(60_000)).await;
    let other = connect(&set.url(), ms(60_000)).await;
    let first = history.actor("first", &locks);
    let second = history.actor("second", &other);
    let old = set.master();
    cut(&set, old).await;
    let (held, _) = first.acquire("k", ms(10_000)).await;
    let held = held.unwrap();
    assert!(first.write(&held).await);
    set.server_mut(old).kill();
    let new = set.switched(old).await;
    let replicas: Vec<_> = set.others(old);
    heal(&set, &replicas);
    let (again, _) = second.acquire("k", ms(10_000)).await;
    let again = again.expect("the new master has lost the first grant");
    assert!(again.token() > held.token());
    assert!(second.write(&again).await);
    assert_eq!(first.lost(&held).await.reason(), LossReason::Taken);
    assert!(!first.write(&held).await, "the register has seen a greater token");
    assert!(first.release(held).await.unwrap_err().is_not_held());
    second.release(again).await.unwrap();
    let report = history.check(Checker::new());
    assert_eq!((report.grants, report.writes_accepted, report.writes_refused), (2, 2, 1));
    drop((first, second));
    nothing_left(&set, &[new], [locks, other]).await;
}

/// F09 (V1, V3): a master that hung, is back, and that no sentinel tells that it is no more: what
/// it grants, pushes and would renew does not count for a client that was told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_former_master_that_nobody_demotes_neither_grants_nor_renews() {
    let (_turn, mut set) = a_set_with(to_cut().hasty()).await;
    let old = set.master();
    let holder = connect(&set.url(), ms(60_000)).await;
    let (locks, rival) =
        (connect(&set.url(), ms(6_000)).await, connect(&set.url(), ms(6_000)).await);
    let late = connect(&set.url(), ms(6_000)).await;
    let pushed = holder.lock("pushed").replicas(2, ms(1_000)).retries(20).await.unwrap();
    let free = holder.lock("free").replicas(2, ms(1_000)).retries(20).await.unwrap();
    let doomed = locks.lock("doomed").replicas(2, ms(1_000)).retries(20).await.unwrap();
    let for_push = tokio::spawn(rival.lock("pushed").wait(ms(20_000)).acquire());
    let line =
        || set.server(old).command::<Vec<String>>(&["LRANGE", "lock:{pushed}:queue", "0", "0"]);
    eventually("it waits", || line().len() == 1).await;
    let waiter = line().remove(0);
    // Only the old master knows that this one is free, only the new one that that one is lost.
    cut(&set, old).await;
    set.server(old).command::<()>(&["DEL", "lock:{free}"]);
    set.server(old).freeze();
    eventually("it is suspected", || set.suspects_the_master()).await;
    // On its way when another is made the master: it is answered when the old one is back.
    let for_free = tokio::spawn(late.lock("free").wait(ms(20_000)).acquire());
    eventually("a sentinel names another", || set.has_begun_to_switch(old)).await;
    let new = set.named_other_than(old).expect("it was just named");
    // One that is not told by then never is.
    eventually("all four clients are told", || listeners(set.server(new)) == 4).await;
    for sentinel in 0..3 {
        set.sentinel(sentinel).kill();
    }
    set.server(new).command::<()>(&["DEL", "lock:{doomed}"]);
    set.server(old).thaw();
    let channel = format!("lock:push:{}", waiter.split_once(':').expect("an owner").1);
    let grant = format!("g {waiter} {} {} 0", 1_u64 << 52, (1_u64 << 52) + 9);
    set.server(old).command::<u64>(&["PUBLISH", &channel, &grant]);
    eventually("it waits at the new one", || {
        set.server(new).command::<u64>(&["LLEN", "lock:{free}:queue"]) == 1
    })
    .await;
    set.server(old).reset_stats();
    let lost = within("the loss", doomed.lost()).await;
    assert_eq!(lost.reason(), LossReason::Taken, "the old master would have renewed it");
    let asked = rival.stats().store_requests;
    eventually("it asks again and again", || rival.stats().store_requests >= asked + 6).await;
    assert!(!for_free.is_finished(), "the old master has granted it");
    assert!(!for_push.is_finished(), "the old master has pushed a grant");
    let stats = set.server(old).command_stats();
    assert_eq!(stats.calls_of(&["eval", "evalsha"]), 0, "nobody asks the old one");
    for (held, waiting) in [(pushed, for_push), (free, for_free)] {
        let before = held.token();
        assert!(held.is_held());
        held.release().await.unwrap();
        let granted = within("the grant of the new one", waiting).await.unwrap().unwrap();
        assert!(granted.token() > before);
        granted.release().await.unwrap();
    }
    drop(doomed);
    nothing_left(&set, &[old, new], [holder, locks, rival, late]).await;
}

/// F30 (V4, V8): a master that was made a replica by hand refuses to write. That may pass, so it
/// is tried again within the budget, over a new connection, and told as what it is at its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_only_reads_is_unavailable_until_it_writes_again() {
    let (_turn, mut set) = a_set().await;
    let (old, url) = (set.master(), set.url());
    let locks = connect(&url, ms(10_000)).await;
    locks.lock("k").await.unwrap().release().await.unwrap();
    // So that nobody puts it right.
    for sentinel in 0..3 {
        set.sentinel(sentinel).freeze();
    }
    let port = set.server(set.others(old)[0]).port().to_string();
    set.server(old).command::<()>(&["REPLICAOF", "127.0.0.1", &port]);
    let start = Stopwatch::start();
    let error = locks.lock("k").wait(ms(500)).await.unwrap_err();
    assert!(start.own() < ms(500) + LATE, "{:?}", start.elapsed());
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    eventually("it is given up, as another may be meant by now", || {
        listeners(set.server(old)) == 0
    })
    .await;
    let waiting = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lock("k").await }
    });
    set.server(old).command::<()>(&["REPLICAOF", "NO", "ONE"]);
    within("the grant", waiting).await.unwrap().unwrap().release().await.unwrap();
    nothing_left(&set, &[old], [locks]).await;
}

/// F30 (V8): a server that the sentinels still name, and that is a replica by now, is no place for
/// a new client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_named_and_is_no_master_is_not_connected_to() {
    let (_turn, set) = a_set().await;
    let old = set.master();
    // A replica of nobody.
    set.server(old).command::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
    let url = set.url();
    let connecting = async {
        loop {
            match LockClient::connect(&url).await {
                Ok(locks) => return locks,
                Err(ConnectError::Store(fault)) if fault.is_transient() => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    let locks = within("a client", connecting).await;
    assert!(!has_clients(set.server(old)), "it refuses to write");
    locks.lock("k").await.unwrap().release().await.unwrap();
    let new = set.switched(old).await;
    nothing_left(&set, &[new], [locks]).await;
}

/// F10 (V1, V3, V8): with `min-replicas-to-write` a master that is cut off from its replicas
/// neither grants nor renews, whoever is told of a switch or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_without_its_replicas_serves_nobody_if_it_is_told_to() {
    let options = SentinelOptions::default()
        .passwords(SERVER_PASSWORD, SENTINEL_PASSWORD)
        .set("min-replicas-to-write", "1")
        .set("min-replicas-max-lag", "2");
    let (_turn, set) = a_set_with(options).await;
    let master = set.master();
    let locks = connect(&set.url(), ms(1_500)).await;
    let held = locks.lock("held").await.unwrap();
    cut(&set, master).await;
    let error = locks.lock("k").wait(ms(500)).await.unwrap_err();
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    assert_eq!(within("the loss", held.lost()).await.reason(), LossReason::Expired);
    heal(&set, &set.others(master));
    locks.lock("k").await.unwrap().release().await.unwrap();
    drop(held);
    nothing_left(&set, &[master], [locks]).await;
}
