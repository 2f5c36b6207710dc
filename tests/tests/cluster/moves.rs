//! Slots that move while their locks are held and waited for.

use std::time::Duration;

use lock_core::LockClient;
use tests::checker::Checker;
use tests::redis::RedisCluster;
use tests::wait::{eventually, within};

use crate::support::*;

/// V3: a hold outlives its slot's move, however long that stays half done: with no key moved yet,
/// with only the lock moved, with only the clock of the slot moved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_goes_on_while_its_slot_is_half_moved_for_longer_than_two_leases() {
    let cluster = RedisCluster::start().await;
    let locks = connect(&cluster.url(), ms(4_000)).await;
    let mut guards = Vec::new();
    for (key, moved) in [("none", ""), ("lock", "lock:{lock}"), ("clock", "lock:clock:")] {
        let guard = locks.lock(key).await.unwrap();
        let (slot, from) = (cluster.slot(key), cluster.owner(key));
        let to = (from + 1) % 3;
        cluster.begin_move(slot, from, to);
        cluster.move_keys(slot, from, to, |name| !moved.is_empty() && name.starts_with(moved));
        guards.push((key, guard, from, to));
    }
    let (begun, asked) = (locks.stats().renewals, cluster.refusals("ASK"));
    eventually("renewals for more than two leases", || {
        assert!(guards.iter().all(|(_, guard, ..)| guard.is_held()));
        locks.stats().renewals >= begun + 21
    })
    .await;
    assert!(cluster.refusals("TRYAGAIN") >= 3 && cluster.refusals("ASK") > asked);
    for (key, guard, from, to) in guards {
        assert!(guard.is_held(), "{key}");
        let token = guard.token();
        cluster.end_move(cluster.slot(key), from, to);
        let renewed = locks.stats().renewals;
        eventually("renewals afterwards", || locks.stats().renewals >= renewed + 3).await;
        assert!(guard.is_held(), "{key}");
        guard.release().await.unwrap();
        let next = locks.lock(key).await.unwrap();
        assert!(next.token() > token, "a finding of safety: {key}");
        next.release().await.unwrap();
    }
    nothing_left(&cluster, [locks]).await;
}

/// V2, V5, V6: a lock that is released while its keys are in two places is free at once, and who
/// waits is granted when they are in one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_in_a_half_moved_slot_frees_the_lock_and_who_waits_is_served_afterwards() {
    let cluster = RedisCluster::start().await;
    let (a, b) =
        (connect(&cluster.url(), ms(30_000)).await, connect(&cluster.url(), ms(30_000)).await);
    let guard = a.lock("k").await.unwrap();
    let token = guard.token();
    let waiting = tokio::spawn(b.lock("k").acquire());
    line_of(&cluster, "k", 1).await;
    let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
    let to = (from + 1) % 3;
    cluster.begin_move(slot, from, to);
    cluster.move_keys(slot, from, to, |key| key == "lock:{k}");
    within("the release", guard.release()).await.unwrap();
    let there = |node: usize| {
        let command = ["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "10"];
        let keys: Vec<String> = cluster.node(node).command(&command);
        keys.iter().any(|key| key == "lock:{k}")
    };
    assert!(!there(from) && !there(to));
    assert!(!waiting.is_finished());
    cluster.end_move(slot, from, to);
    let next = waiting.await.unwrap().unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    nothing_left(&cluster, [a, b]).await;
}

/// V5: the line stays whole when a lock is released whose keys have all moved, and their slot has
/// not: nobody can be pushed to there yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_where_the_slot_is_on_its_way_to_leaves_the_line_as_it_is() {
    let cluster = RedisCluster::start().await;
    let url = cluster.url();
    let [a, b, c] = [(); 3].map(|()| connect(&url, ms(30_000)));
    let (a, b, c) = (a.await, b.await, c.await);
    let guard = a.lock("k").await.unwrap();
    let token = guard.token();
    // Each gives it back at once: who of them is first after the move is nobody's promise.
    let waiting = [&b, &c].map(|locks| {
        let acquire = locks.lock("k").acquire();
        tokio::spawn(async move {
            let next = acquire.await.unwrap();
            assert!(next.token() > token);
            next.release().await
        })
    });
    line_of(&cluster, "k", 2).await;
    let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
    let to = (from + 1) % 3;
    cluster.begin_move(slot, from, to);
    cluster.move_keys(slot, from, to, |_| true);
    within("the release", guard.release()).await.unwrap();
    let command = ["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "10"];
    let keys: Vec<String> = cluster.node(to).command(&command);
    let there = |key: &str| keys.iter().any(|name| name == key);
    assert!(there("lock:{k}:queue") && there("lock:{k}:due") && !there("lock:{k}"), "{keys:?}");
    cluster.end_move(slot, from, to);
    for next in waiting {
        next.await.unwrap().unwrap();
    }
    nothing_left(&cluster, [a, b, c]).await;
}

/// V2, V5: the only one in line is handed the lock by a release in a slot that is about to move:
/// with it the line is empty, and by that of the other node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_one_in_line_is_handed_the_lock_in_a_slot_that_is_about_to_move() {
    let cluster = RedisCluster::start().await;
    let (a, b) =
        (connect(&cluster.url(), ms(30_000)).await, connect(&cluster.url(), ms(30_000)).await);
    let guard = a.lock("k").await.unwrap();
    let token = guard.token();
    let waiting = tokio::spawn(b.lock("k").acquire());
    line_of(&cluster, "k", 1).await;
    let server = cluster.server_of("k");
    eventually("both listen", || server.channels().len() == 2).await;
    let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
    let to = (from + 1) % 3;
    cluster.begin_move(slot, from, to);
    guard.release().await.unwrap();
    let next = within("the hand-off", waiting).await.unwrap().unwrap();
    assert!(next.token() > token);
    assert_eq!(b.stats().handoffs_remote, 1);
    cluster.end_move(slot, from, to);
    next.release().await.unwrap();
    nothing_left(&cluster, [a, b]).await;
}

/// V5: a hold of which others wait for the lock is known to be wanted while its slot is half moved,
/// where renewals cannot look at the line: it is given up in turn, not kept among its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_is_wanted_is_still_known_to_be_while_its_slot_is_half_moved() {
    let cluster = RedisCluster::start().await;
    let (a, b) =
        (connect(&cluster.url(), ms(6_000)).await, connect(&cluster.url(), ms(30_000)).await);
    let guard = a.lock("k").await.unwrap();
    // Each gives it back at once: who of them is first after the move is nobody's promise.
    let wanting = |locks: &LockClient| {
        let acquire = locks.lock("k").wait(ms(20_000)).acquire();
        tokio::spawn(async move { acquire.await.unwrap().release().await })
    };
    let elsewhere = wanting(&b);
    line_of(&cluster, "k", 1).await;
    let renewed = a.stats().renewals;
    eventually("a look at the line", || a.stats().renewals > renewed + 1).await;
    let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
    let to = (from + 1) % 3;
    cluster.begin_move(slot, from, to);
    cluster.move_keys(slot, from, to, |key| key == "lock:{k}");
    let renewed = a.stats().renewals;
    eventually("renewals without one", || a.stats().renewals > renewed + 1).await;
    let here = wanting(&a);
    eventually("it waits here", || a.stats().waiters == 1).await;
    guard.release().await.unwrap();
    cluster.end_move(slot, from, to);
    elsewhere.await.unwrap().unwrap();
    here.await.unwrap().unwrap();
    assert_eq!(a.stats().handoffs_local, 0);
    nothing_left(&cluster, [a, b]).await;
}

/// V2, V5: a line moves with its slot: the release hands the key on at the new place, by a push
/// there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_moved_with_its_slot_is_handed_the_key_at_the_new_place() {
    let cluster = RedisCluster::start().await;
    let (a, b) =
        (connect(&cluster.url(), ms(10_000)).await, connect(&cluster.url(), ms(10_000)).await);
    let guard = a.lock("k").await.unwrap();
    let token = guard.token();
    let waiting = tokio::spawn(b.lock("k").acquire());
    line_of(&cluster, "k", 1).await;
    let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
    let to = (from + 1) % 3;
    cluster.move_slot(slot, from, to);
    eventually("both listen at the new place, and stand there", || {
        let new = cluster.node(to);
        let channels = new.channels();
        let ours = channels
            .iter()
            .filter(|channel| new.command::<u16>(&["CLUSTER", "KEYSLOT", channel]) == slot);
        ours.count() == 2 && new.command::<u64>(&["LLEN", "lock:{k}:queue"]) == 1
    })
    .await;
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(next.token() > token);
    assert_eq!(b.stats().handoffs_remote, 1);
    next.release().await.unwrap();
    nothing_left(&cluster, [a, b]).await;
}

/// V1, V2, V4, V6: processes take turns at keys whose slots move back and forth all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_take_turns_while_the_slots_of_their_keys_move_back_and_forth() {
    const ROUNDS: u64 = 60;
    let (cluster, history) = (RedisCluster::start().await, History::new());
    let keys = ["a", "b"];
    let names = ["one", "two", "three"];
    let mut workers: Vec<_> =
        names.iter().map(|name| history.worker(name, &cluster.url(), ms(10_000))).collect();
    for worker in &mut workers {
        for key in keys {
            worker.send(&format!("contend {key} 3 {ROUNDS} 500 20000"));
        }
    }
    let (mut moves, mut replies) = (0, Vec::new());
    while replies.len() < workers.len() * keys.len() {
        for key in keys {
            let (slot, from) = (cluster.slot(key), cluster.owner(key));
            cluster.move_slot(slot, from, (from + 1 + moves % 2) % 3);
            moves += 1;
            eventually("the nodes agree on the move", || cluster.is_agreed()).await;
        }
        for worker in &mut workers {
            replies.extend(worker.reply_within(Duration::from_millis(40)).await);
        }
    }
    assert!(moves >= 10, "{moves} moves");
    for reply in &replies {
        let counts = reply.value.as_ref().expect("counts");
        assert_eq!(counts["acquired"], 3 * ROUNDS, "{counts}");
        assert_eq!(counts["writes_refused"], 0, "{counts}");
    }
    for worker in &mut workers {
        worker.send("exit");
        worker.ended().await;
    }
    let report = history.check(Checker::new().exclusive());
    assert_eq!(report.grants, 3 * ROUNDS * 6);
    assert!(cluster.refusals("MOVED") >= 3, "{}", cluster.refusals("MOVED"));
    nothing_left(&cluster, []).await;
}
