//! Slots that move while several hold a lock of theirs.

use std::time::{Duration, Instant};

use lock_core::{AcquireError, LockClient, LockGuard};
use tests::proxy::Proxy;
use tests::redis::{RedisCluster, RedisServer};
use tests::scene::Line;
use tests::wait::{eventually, within};
use tokio::task::JoinHandle;

use crate::support::*;

/// A waiter that has not asked for 1.5 s counts as gone, and asks each half second.
const GONE_AFTER: Duration = Duration::from_secs(1);

async fn readers(clients: [&LockClient; 2], key: &str) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for locks in clients {
        guards.push(locks.lock(key).shared().await.unwrap());
    }
    guards
}

/// An acquire in a task of its own.
type Asking = JoinHandle<Result<LockGuard, AcquireError>>;

/// Whether the first of two has its turn before the second; both have theirs then. Otherwise it
/// `is_passed`, which is for the test to judge at that moment.
async fn stands_before(mut first: Asking, mut second: Asking, is_passed: impl FnOnce()) -> bool {
    let turn = within("a turn", async {
        tokio::select! {
            first = &mut first => Ok(first),
            second = &mut second => Err(second),
        }
    });
    let turn = turn.await;
    let stands = turn.is_ok();
    let (guard, other) = match turn {
        Ok(guard) => {
            assert!(!second.is_finished());
            (guard, second)
        }
        Err(guard) => {
            is_passed();
            (guard, first)
        }
    };
    guard.unwrap().unwrap().release().await.unwrap();
    other.await.unwrap().unwrap().release().await.unwrap();
    stands
}

/// Whether the nodes have memory.
fn spare(cluster: &RedisCluster, bytes: &str) {
    for node in cluster.masters() {
        node.command::<()>(&["CONFIG", "SET", "maxmemory", bytes]);
    }
}

/// V3: readers keep their hold while its slot is half moved, whichever of its keys is on the other
/// side, for longer than two leases, and at nodes that have no memory left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_go_on_while_their_slot_is_half_moved_for_longer_than_two_leases() {
    let cluster = RedisCluster::start().await;
    let (one, two) =
        (connect(&cluster.url(), ms(4_000)).await, connect(&cluster.url(), ms(4_000)).await);
    let mut held = Vec::new();
    for (key, moved) in [("none", ""), ("lock", "lock:{lock}"), ("held", "lock:{held}:held")] {
        let guards = readers([&one, &two], key).await;
        let (slot, from) = (cluster.slot(key), cluster.owner(key));
        let to = (from + 1) % 3;
        cluster.begin_move(slot, from, to);
        cluster.move_keys(slot, from, to, |name| name == moved);
        held.push((key, guards, from, to));
    }
    spare(&cluster, "1");
    let begun = [&one, &two].map(|locks| locks.stats().renewals);
    eventually("renewals for more than two leases", || {
        assert!(held.iter().flat_map(|(_, guards, ..)| guards).all(|guard| guard.is_held()));
        [&one, &two].iter().zip(begun).all(|(locks, begun)| locks.stats().renewals >= begun + 21)
    })
    .await;
    spare(&cluster, "0");
    for (key, guards, from, to) in held {
        assert!(guards.iter().all(|guard| guard.is_held()), "{key}");
        cluster.end_move(cluster.slot(key), from, to);
        let renewed = one.stats().renewals;
        eventually("renewals afterwards", || one.stats().renewals >= renewed + 3).await;
        assert!(guards.iter().all(|guard| guard.is_held()), "{key}");
        assert!(one.lock(key).try_acquire().await.unwrap().is_none(), "{key}");
        for guard in guards {
            guard.release().await.unwrap();
        }
        one.lock(key).await.unwrap().release().await.unwrap();
    }
    nothing_left(&cluster, [one, two]).await;
}

/// V1, V2, V5, V6: of readers that are released while their keys are in two places the last lets a
/// writer in once these are in one place, and not before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_are_released_in_a_half_moved_slot_let_a_writer_in_afterwards() {
    for moved in ["lock:{k}", "lock:{k}:held"] {
        let cluster = RedisCluster::start().await;
        let url = cluster.url();
        let (one, two) = (connect(&url, ms(30_000)).await, connect(&url, ms(30_000)).await);
        let three = connect(&url, ms(30_000)).await;
        let mut guards = readers([&one, &two], "k").await;
        let writer = tokio::spawn(three.lock("k").acquire());
        line_of(&cluster, "k", 1).await;
        let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
        let to = (from + 1) % 3;
        cluster.begin_move(slot, from, to);
        cluster.move_keys(slot, from, to, |name| name == moved);
        let [last, first] = [guards.pop().unwrap(), guards.pop().unwrap()];
        spare(&cluster, "1");
        within("the release", first.release()).await.unwrap();
        spare(&cluster, "0");
        assert!(last.is_held() && !writer.is_finished());
        within("the release", last.release()).await.unwrap();
        cluster.end_move(slot, from, to);
        writer.await.unwrap().unwrap().release().await.unwrap();
        nothing_left(&cluster, [one, two, three]).await;
    }
}

/// V3: a writer keeps its hold while it is to become a reader in a half moved slot, for longer than two
/// leases, and becomes one afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_in_a_half_moved_slot_loses_nothing_and_is_done_afterwards() {
    let cluster = RedisCluster::start().await;
    let (one, two) =
        (connect(&cluster.url(), ms(4_000)).await, connect(&cluster.url(), ms(4_000)).await);
    let guard = one.lock("k").await.unwrap();
    let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
    let to = (from + 1) % 3;
    cluster.begin_move(slot, from, to);
    cluster.move_keys(slot, from, to, |name| name == "lock:{k}");
    let renewed = one.stats().renewals;
    let mut downgrade = Box::pin(guard.downgrade());
    let renewals = eventually("renewals for two leases", || one.stats().renewals >= renewed + 6);
    tokio::select! {
        answer = &mut downgrade => panic!("{answer:?}"),
        () = renewals => {}
    }
    cluster.end_move(slot, from, to);
    within("the downgrade", downgrade).await.unwrap();
    assert!(guard.is_held());
    two.lock("k").shared().await.unwrap().release().await.unwrap();
    guard.release().await.unwrap();
    nothing_left(&cluster, [one, two]).await;
}

/// V2: a reader whose turn comes while its slot is on its way cannot be let in yet. It keeps its place,
/// unless it could not ask for so long that it counts as gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_whose_turn_comes_on_the_way_of_its_slot_stands_before_the_writer_behind_it() {
    let cluster = RedisCluster::start().await;
    let url = cluster.url();
    let (one, two) = (connect(&url, ms(30_000)).await, connect(&url, ms(30_000)).await);
    let three = connect(&url, ms(30_000)).await;
    loop {
        let guard = one.lock("k").await.unwrap();
        // Its place lives from the last time that it asked, which on a busy machine may be the first.
        let begun = Instant::now();
        let reader = tokio::spawn(two.lock("k").shared().acquire());
        line_of(&cluster, "k", 1).await;
        let writer = tokio::spawn(three.lock("k").acquire());
        line_of(&cluster, "k", 2).await;
        let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
        let to = (from + 1) % 3;
        cluster.begin_move(slot, from, to);
        within("the release", guard.release()).await.unwrap();
        assert_eq!(cluster.server_of("k").command::<u64>(&["LLEN", "lock:{k}:queue"]), 2);
        cluster.end_move(slot, from, to);
        let is_gone = || assert!(begun.elapsed() > GONE_AFTER, "{:?}", begun.elapsed());
        if stands_before(reader, writer, is_gone).await {
            break;
        }
    }
    nothing_left(&cluster, [one, two, three]).await;
}

/// V2: whoever hears of a move of its slot first passes none of those who have not heard of it yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_has_not_heard_of_a_move_keeps_its_place() {
    let cluster = RedisCluster::start().await;
    let addrs: Vec<_> = cluster.nodes().iter().map(RedisServer::addr).collect();
    let proxies = Line::renaming(&addrs);
    let nodes: Vec<_> = proxies.iter().map(|proxy| proxy.addr().to_string()).collect();
    let slow = format!("redis+cluster://{}", nodes.join(","));
    let (one, two) = (connect(&cluster.url(), ms(30_000)).await, connect(&slow, ms(30_000)).await);
    let three = connect(&cluster.url(), ms(30_000)).await;
    for is_reader in [false, true] {
        loop {
            let guard = one.lock("k").await.unwrap();
            let begun = Instant::now();
            let acquire = two.lock("k");
            let acquire = if is_reader { acquire.shared() } else { acquire };
            let first = tokio::spawn(acquire.acquire());
            line_of(&cluster, "k", 1).await;
            let second = tokio::spawn(three.lock("k").acquire());
            line_of(&cluster, "k", 2).await;
            proxies.iter().for_each(Proxy::black_hole);
            let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
            cluster.move_slot(slot, from, (from + 1) % 3);
            within("the release", guard.release()).await.unwrap();
            let is_taken = || cluster.server_of("k").key("lock:{k}").is_some();
            eventually("somebody has the key", is_taken).await;
            let is_alive = begun.elapsed() < GONE_AFTER;
            proxies.iter().for_each(Proxy::resume);
            if stands_before(first, second, || assert!(!is_alive, "it is passed")).await {
                break;
            }
        }
    }
    nothing_left(&cluster, [one, two, three]).await;
}

/// V1: a writer does not take a lock for free of which only those who hold it are not there yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_stays_out_while_those_who_hold_the_lock_are_on_their_way() {
    let cluster = RedisCluster::start().await;
    let url = cluster.url();
    let (one, two) = (connect(&url, ms(30_000)).await, connect(&url, ms(30_000)).await);
    let guards = readers([&one, &one], "k").await;
    let waiting = tokio::spawn(two.lock("k").wait(ms(60_000)).acquire());
    line_of(&cluster, "k", 1).await;
    let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
    let to = (from + 1) % 3;
    cluster.begin_move(slot, from, to);
    // All that an exclusive claim names is at the new place.
    cluster.move_keys(slot, from, to, |name| name != "lock:{k}:held");
    let asked = two.stats().store_requests;
    eventually("it asks there", || two.stats().store_requests > asked + 20).await;
    assert!(!waiting.is_finished() && guards.iter().all(|guard| guard.is_held()));
    cluster.end_move(slot, from, to);
    for guard in guards {
        guard.release().await.unwrap();
    }
    waiting.await.unwrap().unwrap().release().await.unwrap();
    nothing_left(&cluster, [one, two]).await;
}
