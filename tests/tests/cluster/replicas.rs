//! Grants that count when replicas have them.

use lock_core::LockClient;
use tests::redis::RedisCluster;

use crate::support::*;

async fn acquire(locks: &LockClient, key: &str) -> Result<u64, String> {
    let guard = locks.lock(key).wait(ms(9_000)).replicas(1, ms(1_000)).retries(2).await;
    let guard = guard.map_err(|error| format!("{error:?}"))?;
    let token = guard.token().get();
    guard.release().await.map_err(|error| format!("{error:?}"))?;
    Ok(token)
}

/// F08 (V2, V8): with `replicas` a grant at a cluster counts once the replica of the slot's master
/// has it; without a replica it is given back, and the error says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_at_a_cluster_waits_for_the_replica_of_its_slot() {
    let mut cluster = RedisCluster::start().await;
    let locks = connect(&cluster.url(), ms(10_000)).await;
    let first = acquire(&locks, "k").await.unwrap();
    let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
    let to = (from + 1) % 3;
    cluster.move_slot(slot, from, to);
    let second = acquire(&locks, "k").await.unwrap();
    assert!(second > first);
    cluster.kill(to + 3);
    let error = acquire(&locks, "k").await.unwrap_err();
    assert!(error.contains("NotReplicated"), "{error}");
    // Given back: nobody holds it.
    let third = locks.lock("k").await.unwrap();
    assert!(third.token().get() > second);
    third.release().await.unwrap();
    nothing_left(&cluster, [locks]).await;
}

/// V4, V8: who asks for replicas that there are not does not wait for them at each refusal of a
/// slot that is half moved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_in_a_half_moved_slot_waits_for_replicas_once() {
    let cluster = RedisCluster::start().await;
    let locks = connect(&cluster.url(), ms(10_000)).await;
    locks.lock("k").await.unwrap().release().await.unwrap();
    let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
    let to = (from + 1) % 3;
    cluster.begin_move(slot, from, to);
    let (server, refused) = (cluster.node(from), cluster.refusals("TRYAGAIN"));
    let waits = server.command_stats().calls("wait");
    let error = locks.lock("k").wait(ms(4_000)).replicas(2, ms(200)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(cluster.refusals("TRYAGAIN") - refused >= 4);
    assert!(server.command_stats().calls("wait") - waits <= 2);
    cluster.end_move(slot, from, to);
    let other = connect(&cluster.url(), ms(10_000)).await;
    acquire(&other, "k").await.unwrap();
    nothing_left(&cluster, [locks, other]).await;
}
