//! Beside the application's own pool of a cluster.

use std::time::Duration;

use lock_core::{ConnectError, LockClient, LockOptions};
use tests::redis::{RedisCluster, RedisServer};
use tests::wait::{eventually, within};

use crate::support::*;

fn pool(cluster: &RedisCluster) -> deadpool_redis::cluster::Pool {
    let urls: Vec<_> = cluster.nodes()[..3].iter().map(RedisServer::url).collect();
    let mut config = deadpool_redis::cluster::Config::from_urls(urls);
    config.pool = Some(deadpool_redis::cluster::PoolConfig::new(2));
    config.create_pool(Some(deadpool_redis::Runtime::Tokio1)).unwrap()
}

async fn pooled(
    cluster: &RedisCluster,
    lease: Duration,
) -> (deadpool_redis::cluster::Pool, LockClient) {
    let pool = pool(cluster);
    let options = LockOptions::new().with_wait(ms(8_000)).with_lease(lease);
    let builder = LockClient::builder(cluster.url()).defaults(options).redis_pool(pool.clone());
    (pool, builder.connect().await.unwrap())
}

/// F09, F17 (V1, V2, V3, V5, V6): no lock waits for the pool, or believes the nodes that it leads to;
/// a slot's move is followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_at_a_cluster_do_not_need_the_pool() {
    let cluster = RedisCluster::start().await;
    let (pool, a) = pooled(&cluster, ms(900)).await;
    let greedy = (pool.get().await.unwrap(), pool.get().await.unwrap());
    let b = connect(&cluster.url(), ms(900)).await;
    for n in 0..12 {
        let key = format!("k:{n}");
        let guard = b.lock(key.as_str()).await.unwrap();
        let (token, waiting) = (guard.token(), tokio::spawn(a.lock(key.as_str()).acquire()));
        line_of(&cluster, &key, 1).await;
        guard.release().await.unwrap();
        let next = waiting.await.unwrap().unwrap();
        assert!(next.token() > token);
        next.release().await.unwrap();
    }
    assert!(a.stats().handoffs_remote >= 6, "{}", a.stats().handoffs_remote);
    let guard = a.lock("k").await.unwrap();
    let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
    cluster.move_slot(slot, from, (from + 1) % 3);
    let renewed = a.stats().renewals;
    eventually("two leases of renewals", || a.stats().renewals >= renewed + 6).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
    a.lock("k").await.unwrap().release().await.unwrap();
    drop((greedy, pool));
    nothing_left(&cluster, [a, b]).await;
}

/// V5, V6: a lock that was acquired through a pool is free at once when it is released while its
/// keys are in two places.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_beside_a_pool_in_a_half_moved_slot_frees_the_lock() {
    let cluster = RedisCluster::start().await;
    let (pool, locks) = pooled(&cluster, ms(30_000)).await;
    let guard = locks.lock("k").await.unwrap();
    let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
    let to = (from + 1) % 3;
    cluster.begin_move(slot, from, to);
    cluster.move_keys(slot, from, to, |key| key == "lock:{k}");
    within("the release", guard.release()).await.unwrap();
    let command = ["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "10"];
    for node in [from, to] {
        let keys: Vec<String> = cluster.node(node).command(&command);
        assert!(keys.iter().all(|key| key != "lock:{k}"), "{keys:?}");
    }
    cluster.end_move(slot, from, to);
    locks.lock("k").await.unwrap().release().await.unwrap();
    drop(pool);
    nothing_left(&cluster, [locks]).await;
}

/// F17 (V1, V8): a pool of another kind than the URL, or of another cluster, is refused.
#[tokio::test]
async fn a_pool_that_leads_elsewhere_than_the_cluster_is_refused() {
    let (cluster, server) = (RedisCluster::start().await, RedisServer::start());
    let single = deadpool_redis::Config::from_url(cluster.node(0).url())
        .create_pool(Some(deadpool_redis::Runtime::Tokio1))
        .unwrap();
    let refused = async |builder: lock_core::ClientBuilder| {
        let error = builder.connect().await.unwrap_err();
        let ConnectError::Store(fault) = &error else { panic!("{error:?}") };
        assert!(!fault.is_transient(), "{error}");
        error.to_string()
    };
    let error = refused(LockClient::builder(cluster.url()).redis_pool(single)).await;
    assert!(error.contains("one is of a cluster"), "{error}");
    let error = refused(LockClient::builder(server.url()).redis_pool(pool(&cluster))).await;
    assert!(error.contains("one is of a cluster"), "{error}");
    let other = RedisCluster::start().await;
    let error = refused(LockClient::builder(cluster.url()).redis_pool(pool(&other))).await;
    assert!(error.contains("another server or database"), "{error}");
}
