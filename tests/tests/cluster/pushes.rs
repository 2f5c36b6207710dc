//! Keys and channels of a lock are in one slot, and pushes find their way.

use tests::redis::{RedisCluster, RedisServer};
use tests::stalls::Stopwatch;
use tests::wait::eventually;

use crate::support::*;

/// All keys of a lock and the channels on which its grants are pushed are in one slot, and nothing
/// is pushed to all nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_and_channels_of_a_lock_are_in_one_slot() {
    let cluster = RedisCluster::start().await;
    let (a, b) =
        (connect(&cluster.url(), ms(10_000)).await, connect(&cluster.url(), ms(10_000)).await);
    let guard = a.lock("order:{4}2").await.unwrap();
    let waiting = tokio::spawn(b.lock("order:{4}2").acquire());
    let name = "order:%7B4%7D2";
    line_of(&cluster, name, 1).await;
    let (slot, server) = (cluster.slot(name), cluster.server_of(name));
    let slot_of = |name: &str| server.command::<u16>(&["CLUSTER", "KEYSLOT", name]);
    let keys: Vec<_> = cluster.masters().iter().flat_map(|node| node.keys()).collect();
    let keys: Vec<_> = keys.iter().filter(|key| !key.name.contains("probe")).collect();
    assert_eq!(keys.len(), 4, "{keys:?}");
    assert!(keys.iter().all(|key| slot_of(&key.name) == slot), "{keys:?}");
    eventually("both listen", || server.channels().len() == 2).await;
    for channel in server.channels() {
        assert_eq!(slot_of(&channel), slot, "{channel}");
        assert!(channel.starts_with("lock:push:{"), "{channel}");
    }
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert_eq!(b.stats().handoffs_remote, 1);
    next.release().await.unwrap();
    let calls = |verb: &str| {
        cluster.masters().iter().map(|node| node.command_stats().calls(verb)).sum::<u64>()
    };
    assert!(calls("spublish") >= 2);
    assert_eq!(calls("publish"), 0);
    nothing_left(&cluster, [a, b]).await;
}

/// F33 (V6, V8): the names of acquires that last are in the slots of their locks, until the release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_long_hold_is_for_is_shown_until_its_end() {
    let cluster = RedisCluster::start().await;
    let locks = connect(&cluster.url(), ms(2_000)).await;
    let mut held = Vec::new();
    for n in 0..12 {
        held.push(locks.lock(format!("k:{n}")).name("pay an order").await.unwrap());
    }
    let names_at = |node: &RedisServer| {
        let keys = node.keys().into_iter();
        keys.filter(|key| key.name.contains("}:name:")).collect::<Vec<_>>()
    };
    let names = || cluster.masters().into_iter().flat_map(names_at).collect::<Vec<_>>();
    eventually("all have lasted", || names().len() == held.len()).await;
    assert!(names().iter().all(|name| name.ttl_ms.is_some_and(|left| left <= 20_000)));
    assert!(cluster.masters().into_iter().all(|node| !names_at(node).is_empty()));
    for guard in held {
        let seen = locks.inspect(guard.key()).await.unwrap();
        let about = seen.holders[0].about.as_deref().unwrap_or_default();
        assert!(about.ends_with(" name=pay an order"), "{about}");
        guard.release().await.unwrap();
    }
    eventually("the releases delete them", || names().is_empty()).await;
    nothing_left(&cluster, [locks]).await;
}

/// V5: hand-offs between two clients are pushed each time, none waits for its recheck.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hand_offs_are_pushed_and_none_waits_for_its_recheck() {
    let cluster = RedisCluster::start().await;
    let (a, b) =
        (connect(&cluster.url(), ms(10_000)).await, connect(&cluster.url(), ms(10_000)).await);
    let start = Stopwatch::start();
    for n in 0..20 {
        // A slot of its own, so that each waiter's subscription is a new one.
        let key = format!("k:{n}");
        let guard = a.lock(key.as_str()).await.unwrap();
        let waiting = tokio::spawn(b.lock(key.as_str()).acquire());
        line_of(&cluster, &key, 1).await;
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
    assert!(start.own() < RECHECK * 10, "{:?}", start.elapsed());
    nothing_left(&cluster, [a, b]).await;
}

/// F25 (V5): connections that are dropped come back with their subscriptions by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_connection_comes_back_with_the_subscriptions_that_are_needed() {
    let cluster = RedisCluster::start().await;
    let (a, b) =
        (connect(&cluster.url(), ms(10_000)).await, connect(&cluster.url(), ms(10_000)).await);
    let guard = a.lock("k").await.unwrap();
    let waiting = tokio::spawn(b.lock("k").acquire());
    line_of(&cluster, "k", 1).await;
    let server = cluster.server_of("k");
    eventually("both listen", || server.channels().len() == 2).await;
    let ids = || {
        let clients = server.clients();
        let ours = clients.iter().filter(|one| one.subscriptions() > 0);
        ours.map(tests::redis::ClientInfo::id).collect::<Vec<_>>()
    };
    let (before, start) = (ids(), Stopwatch::start());
    for id in &before {
        server.command::<()>(&["CLIENT", "KILL", "ID", &id.to_string()]);
    }
    eventually("both listen again", || {
        let now = ids();
        now.len() == 2 && now.iter().all(|id| !before.contains(id))
    })
    .await;
    // By themselves: the next look at the nodes would bring the holder's back, too.
    assert!(start.own() < SLACK, "{:?}", start.elapsed());
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    next.release().await.unwrap();
    nothing_left(&cluster, [a, b]).await;
}

/// F10, F25 (V5): connections for pushes are tried from time to time, whatever else goes on: one
/// that was dropped without a word is noticed although the client's others are well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_for_pushes_are_tried_while_nothing_is_pushed() {
    let cluster = RedisCluster::start().await;
    let (a, b) =
        (connect(&cluster.url(), ms(10_000)).await, connect(&cluster.url(), ms(10_000)).await);
    let guard = a.lock("k").await.unwrap();
    let waiting = tokio::spawn(b.lock("k").wait(ms(20_000)).acquire());
    line_of(&cluster, "k", 1).await;
    let server = cluster.server_of("k");
    eventually("both listen", || server.channels().len() == 2).await;
    eventually("the waiter's connection is tried", || {
        let clients = server.clients();
        let mut ours = clients.iter().filter(|one| one.subscriptions() > 0);
        ours.any(|one| one.field("cmd") == Some("sunsubscribe"))
    })
    .await;
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert_eq!(b.stats().handoffs_remote, 1);
    next.release().await.unwrap();
    nothing_left(&cluster, [a, b]).await;
}
