//! Masters that die, hang, are cut off and come back.

use std::time::Duration;

use lock_core::error::LossReason;
use tests::checker::Checker;
use tests::redis::{RedisCluster, RedisOptions};
use tests::wait::{eventually, within};
use tests::worker::Worker;

use crate::support::*;

const ROUNDS: u64 = 150;
const TASKS: u64 = 3;
const NAMES: [&str; 3] = ["one", "two", "three"];

/// Processes that want `k`, of which some have had it.
async fn contenders(cluster: &RedisCluster, history: &History) -> Vec<Worker> {
    let url = cluster.url_of_all(None);
    let mut workers: Vec<_> =
        NAMES.iter().map(|name| history.worker(name, &url, ms(2_000))).collect();
    for worker in &mut workers {
        worker.ask("contend k 1 1 0 20000").await.expect_success();
        worker.send(&format!("contend k {TASKS} {ROUNDS} 2000 20000"));
    }
    let server = cluster.server_of("k");
    let begun = fence(server, "k");
    eventually("they are at it", || fence(server, "k") > begun).await;
    workers
}

/// Everyone is served within the budget; V1, V2 and V4 of the whole history.
async fn all_served(mut workers: Vec<Worker>, history: &History, checker: Checker) {
    for worker in &mut workers {
        let reply = worker.reply_within(Duration::from_secs(90)).await.expect("an end");
        let counts = reply.value.expect("counts");
        assert_eq!(counts["acquired"], TASKS * ROUNDS, "{counts}");
        worker.send("exit");
        worker.ended().await;
    }
    // Not `exclusive`: a replica that takes over may have missed the last grants.
    history.check(checker);
}

/// V1, V2, V4, V6: a master is killed while processes take turns at one of its keys: its replica
/// serves them, all within their budget, and no token comes twice or goes back. The old master
/// comes back as a replica, and changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_is_succeeded_and_everybody_is_served() {
    let (mut cluster, history) = (RedisCluster::hasty().await, History::new());
    let old = cluster.owner("k");
    let workers = contenders(&cluster, &history).await;
    cluster.kill(old);
    let new = cluster.succeeded(old, "k").await;
    assert_eq!(new, old + 3, "its replica");
    let locks = connect(&cluster.url_of_all(None), ms(2_000)).await;
    let actor = history.actor("late", &locks);
    let (guard, _) = actor.acquire("k", ms(20_000)).await;
    actor.release(guard.unwrap()).await.unwrap();
    cluster.restart(old);
    all_served(workers, &history, Checker::new()).await;
    cluster.settled().await;
    assert_eq!(cluster.owner("k"), new);
    let (guard, _) = actor.acquire("k", ms(5_000)).await;
    actor.release(guard.unwrap()).await.unwrap();
    history.check(Checker::new());
    drop(actor);
    nothing_left(&cluster, [locks]).await;
}

/// V1, V2, V4, V6: the same with a master that hangs, is succeeded, and goes on: it answers what it
/// was asked long ago, and nobody is misled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_hangs_is_succeeded_and_misleads_nobody_when_it_goes_on() {
    let (cluster, history) = (RedisCluster::hasty().await, History::new());
    let old = cluster.owner("k");
    let workers = contenders(&cluster, &history).await;
    let by = (old + 1) % 3;
    cluster.node(old).freeze();
    let slot = cluster.node(by).command(&["CLUSTER", "KEYSLOT", "lock:{k}"]);
    eventually("a replica took over", || {
        cluster.owner_seen_by(by, slot).is_some_and(|owner| owner != old)
    })
    .await;
    let new = cluster.node(old + 3);
    let begun = fence(new, "k");
    eventually("they are at it again", || fence(new, "k") > begun).await;
    cluster.node(old).thaw();
    all_served(workers, &history, Checker::new().with_a_former_master()).await;
    cluster.settled().await;
    nothing_left(&cluster, []).await;
}

/// V3: a hold survives the failover of its master if the replica has it: no renewal is missed for
/// longer than a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_outlives_the_failover_of_its_master() {
    let mut cluster = RedisCluster::hasty().await;
    // Longer than two elections of a busy machine, as the first may fail, and shorter than three
    // times the patience of the tests, within which a renewal is due.
    let locks = connect(&cluster.url_of_all(None), ms(60_000)).await;
    let guard = locks.lock("k").await.unwrap();
    let old = cluster.owner("k");
    // `WAIT` is for the writes of its own connection, and for all before them.
    cluster.node(old).command::<()>(&["SET", "mark:{k}", "", "PX", "1"]);
    let synced: u64 = cluster.node(old).command(&["WAIT", "1", "5000"]);
    assert_eq!(synced, 1);
    cluster.kill(old);
    let new = cluster.succeeded(old, "k").await;
    let left = || cluster.node(new).key("lock:{k}").and_then(|key| key.ttl_ms).unwrap_or(0);
    let mut before = left();
    // Only a renewal there gives the key longer to live.
    let renewed = || {
        let now = left();
        now > std::mem::replace(&mut before, now)
    };
    tokio::select! {
        () = eventually("a renewal at the new master", renewed) => {}
        lost = guard.lost() => panic!("{lost}, {before} ms of it were left at the new master"),
    }
    assert!(guard.is_held());
    let token = guard.token();
    guard.release().await.unwrap();
    let next = locks.lock("k").await.unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    nothing_left(&cluster, [locks]).await;
}

/// F09 (V3): a master that was cut off from the others, and succeeded, and goes on to serve: what
/// it says of a hold does not count once the client has heard of its successor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_at_a_master_that_was_cut_off_and_succeeded_does_not_count() {
    // Without full coverage a lone master does not see that it is alone.
    let options = RedisOptions::new().set("cluster-require-full-coverage", "no");
    let cluster = RedisCluster::hasty_with(options).await;
    let locks = connect(&cluster.url_of_all(None), ms(9_000)).await;
    let guard = locks.lock("k").await.unwrap();
    let old = cluster.owner("k");
    for id in cluster.ids().iter().filter(|id| **id != cluster.ids()[old]) {
        cluster.node(old).command::<()>(&["CLUSTER", "FORGET", id]);
    }
    let by = (old + 1) % 3;
    let (slot, new) = (cluster.slot("k"), cluster.node(old + 3));
    // The old one still answers their pings, so they would leave it in office.
    new.command::<()>(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    eventually("a replica took over", || cluster.owner_seen_by(by, slot) == Some(old + 3)).await;
    new.command::<()>(&["DEL", "lock:{k}"]);
    // The old one would renew it for ever.
    assert_eq!(within("the loss", guard.lost()).await.reason(), LossReason::Taken);
    assert!(cluster.node(old).key("lock:{k}").is_some());
    let next = locks.lock("k").await.unwrap();
    assert!(next.token() > guard.token());
    assert!(new.key("lock:{k}").is_some(), "granted by the successor");
    assert!(guard.release().await.unwrap_err().is_not_held());
    next.release().await.unwrap();
}

/// F09 (V3): a renewal on its way to a master that hangs is answered when that goes on, without
/// knowing of its successor. The client knows by then, and does not count it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_a_superseded_master_answers_late_does_not_count() {
    let options = RedisOptions::new().set("cluster-require-full-coverage", "no");
    let cluster = RedisCluster::hasty_with(options).await;
    // Its renewals are waited for for 2 s.
    let locks = connect(&cluster.url_of_all(None), ms(12_000)).await;
    let guard = locks.lock("k").await.unwrap();
    let old = cluster.owner("k");
    let [next, other] = [(old + 1) % 3, (old + 2) % 3];
    let owned_by = |node: usize| {
        (0..).map(|n| format!("x:{n}")).find(|key| cluster.owner(key) == node).expect("one")
    };
    let (elsewhere, beside) = (owned_by(next), owned_by(old));
    let slot = cluster.slot("k");
    cluster.move_slot(cluster.slot(&elsewhere), next, other);
    for id in cluster.ids().iter().filter(|id| **id != cluster.ids()[old]) {
        cluster.node(old).command::<()>(&["CLUSTER", "FORGET", id]);
    }
    let (renewals, requests) = (locks.stats().renewals, locks.stats().store_requests);
    cluster.node(old).freeze();
    // An election may take longer than the lease.
    cluster.node(old + 3).command::<()>(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    eventually("a replica took over", || cluster.owner_seen_by(next, slot) == Some(old + 3)).await;
    cluster.node(old + 3).command::<()>(&["DEL", "lock:{k}"]);
    eventually("a renewal is on its way", || locks.stats().store_requests > requests).await;
    // Meets a redirection, and the client looks around.
    locks.inspect(&*elsewhere).await.unwrap();
    let heard = async || {
        let asked = tokio::time::timeout(ms(50), locks.inspect(&*beside));
        asked.await.is_ok_and(|answer| answer.is_ok())
    };
    while !heard().await {}
    cluster.node(old).thaw();
    assert_eq!(within("the loss", guard.lost()).await.reason(), LossReason::Taken);
    assert!(cluster.node(old).key("lock:{k}").is_some(), "it renewed");
    assert_eq!(locks.stats().renewals, renewals);
}
