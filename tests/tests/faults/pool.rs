//! F17: commands through the application's own pool.

use std::time::Duration;

use lock_core::error::ConnectError;
use lock_core::{LockClient, LockOptions};
use tests::redis::RedisServer;
use tests::stalls::Stopwatch;
use tests::wait::eventually;

use crate::support::*;

async fn pooled(server: &RedisServer, lease: Duration) -> (deadpool_redis::Pool, LockClient) {
    let pool = deadpool_redis::Config::from_url(server.url())
        .builder()
        .unwrap()
        .max_size(1)
        .runtime(deadpool_redis::Runtime::Tokio1)
        .build()
        .unwrap();
    let options = LockOptions::new().with_wait(ms(5_000)).with_lease(lease);
    let builder = LockClient::builder(server.url()).defaults(options).redis_pool(pool.clone());
    let locks = builder.connect().await.unwrap();
    (pool, locks)
}

/// F17 (V3, V6): a hold outlives the application's exhausted pool, as its renewals have a
/// connection of their own.
#[tokio::test]
async fn renewals_do_not_need_the_pool_that_the_application_exhausted() {
    let server = RedisServer::start();
    let (pool, locks) = pooled(&server, ms(2_000)).await;
    let guard = locks.lock("k").await.unwrap();
    let greedy = pool.get().await.unwrap();
    eventually("two leases of renewals", || locks.stats().renewals >= 6).await;
    assert!(guard.is_held());
    drop(greedy);
    guard.release().await.unwrap();
    drop(pool);
    nothing_left(&server, [locks]).await;
}

/// F17 (V4, V6, V8): an acquire ends with its budget, or is served by the conductor; a release says
/// that it does not know, and goes on.
#[tokio::test]
async fn an_exhausted_pool_bounds_acquires_and_releases() {
    let server = RedisServer::start();
    let (pool, locks) = pooled(&server, ms(30_000)).await;
    let guard = locks.lock("k").await.unwrap();
    let greedy = pool.get().await.unwrap();
    let start = Stopwatch::start();
    let error = locks.lock("other").wait(ms(300)).await.unwrap_err();
    assert!(start.own() < ms(300) + LATE, "{:?}", start.elapsed());
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    // The conductor asks again, over a connection of its own.
    drop(locks.lock("another").wait(ms(5_000)).await.unwrap());
    eventually("it is given back", || server.key("lock:{another}").is_none()).await;
    let start = Stopwatch::start();
    let error = guard.release().await.unwrap_err();
    assert!(start.own() < ms(2_000) + SLACK, "{:?}", start.elapsed());
    assert!(error.is_unavailable(), "{error}");
    drop(greedy);
    eventually("the release went on", || server.key("lock:{k}").is_none()).await;
    locks.lock("other").await.unwrap().release().await.unwrap();
    drop(pool);
    nothing_left(&server, [locks]).await;
}

/// F17 (V1, V8): a pool that leads to another database or server than the URL is refused, as
/// renewals would look for its locks in the wrong place.
#[tokio::test]
async fn a_pool_that_leads_elsewhere_is_refused_at_connect() {
    let (server, elsewhere) = (RedisServer::start(), RedisServer::start());
    for url in [format!("{}/1", server.url()), elsewhere.url()] {
        let pool = deadpool_redis::Config::from_url(&url)
            .create_pool(Some(deadpool_redis::Runtime::Tokio1))
            .unwrap();
        let error = LockClient::builder(server.url()).redis_pool(pool).connect().await.unwrap_err();
        let ConnectError::Store(fault) = &error else { panic!("{error:?}") };
        assert!(!fault.is_transient(), "{error}");
        assert!(error.to_string().contains("another server or database"), "{error}");
    }
}
