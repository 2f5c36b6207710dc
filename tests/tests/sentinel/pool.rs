//! Commands through the application's own pool of a Sentinel set.

use tests::stalls::Stopwatch;

use deadpool_redis::Runtime;
use deadpool_redis::sentinel::{Config, Pool, SentinelServerType};
use lock_core::{LockClient, LockOptions};

use crate::support::*;

async fn pooled(set: &SentinelSet) -> (Pool, LockClient) {
    let master = set.name().to_owned();
    let config = Config::from_urls(set.sentinel_urls(), master, SentinelServerType::Master);
    let pool = config.create_pool(Some(Runtime::Tokio1)).unwrap();
    let options = LockOptions::new().with_wait(ms(10_000)).with_lease(ms(10_000));
    let builder = LockClient::builder(set.url()).defaults(options).redis_pool(pool.clone());
    (pool, builder.connect().await.unwrap())
}

/// V2, V5: a switch is followed through the pool as well, and `replicas` are waited for on the
/// pool's connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_follows_a_switch_and_waits_for_replicas() {
    let (_turn, set) = a_set().await;
    let old = set.master();
    let (pool, locks) = pooled(&set).await;
    let held = locks.lock("k").replicas(2, ms(1_000)).retries(20).await.unwrap();
    let error = locks.lock("other").replicas(3, ms(50)).await.unwrap_err();
    assert!(error.is_not_replicated(), "{error}");
    let new = set.failover().await;
    let start = Stopwatch::start();
    // Until the client has heard of the new one, the old one grants.
    let guard = loop {
        let guard = locks.lock("more").await.unwrap();
        // The old master may take a request with it, whose time is 2 s.
        assert!(start.own() < FOLLOWED_WITHIN + ms(2_000), "{:?}", start.elapsed());
        if set.server(new).key("lock:{more}").is_some() {
            break guard;
        }
        drop(guard.release().await);
    };
    assert!(guard.is_held());
    assert!(held.is_held());
    guard.release().await.unwrap();
    held.release().await.unwrap();
    assert!(set.server(new).key("lock:{k}").is_none());
    drop(pool);
    nothing_left(&set, &[old, new], [locks]).await;
}

/// V8: a pool's connection gives a wait for replicas the time that was asked for, not its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_a_pool_a_wait_for_replicas_takes_as_long_as_was_asked_for() {
    let (_turn, set) = a_set().await;
    let alone = RedisServer::start();
    let pool = deadpool_redis::Config::from_url(alone.url());
    let pool = pool.create_pool(Some(Runtime::Tokio1)).unwrap();
    let plain = LockClient::builder(alone.url()).redis_pool(pool).connect().await.unwrap();
    let (_pool, locks) = pooled(&set).await;
    for (locks, wanted) in [(plain, 1), (locks, 3)] {
        let start = Stopwatch::start();
        let error = locks.lock("k").replicas(wanted, ms(900)).await.unwrap_err();
        assert!(error.is_not_replicated(), "{error}");
        assert!(start.elapsed() >= ms(900) && start.own() < ms(900) + LATE, "{start:?}");
    }
}

/// F09 (V1): a connection of the pool to a master that hung, and that nobody demotes, grants
/// nothing and is not used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooled_connection_to_a_former_master_grants_nothing() {
    let (_turn, mut set) = a_hasty_set().await;
    let old = set.master();
    let (pool, locks) = pooled(&set).await;
    locks.lock("k").await.unwrap().release().await.unwrap();
    // The application uses one while the master changes, and gives it back then.
    let stale = pool.get().await.unwrap();
    set.server(old).freeze();
    let new = set.switched(old).await;
    eventually("the client is told", || listeners(set.server(new)) == 1).await;
    for sentinel in 0..3 {
        set.sentinel(sentinel).freeze();
    }
    set.server(old).thaw();
    // So the next one that the pool gives out is that one.
    let rest = pool.status();
    pool.retain(|_, _| false);
    drop(stale);
    assert_eq!(pool.status().available, 1, "{rest:?}");
    let waiting = tokio::spawn(locks.lock("k").acquire());
    eventually("the stale one is gone", || pool.status().size == 0).await;
    for sentinel in 0..3 {
        set.sentinel(sentinel).thaw();
    }
    let guard = within("a grant", waiting).await.unwrap().unwrap();
    assert!(guard.is_held() && set.server(new).key("lock:{k}").is_some());
    guard.release().await.unwrap();
    drop(pool);
    nothing_left(&set, &[new], [locks]).await;
}
