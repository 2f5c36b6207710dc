//! Beside an application's own pool.

use lock_core::LockClient;
use lock_core::error::ConnectError;
use tests::redis::{RedisCluster, RedisServer};

/// F17 (V1, V8): locks at a cluster go through no pool, and those of one server through none of a
/// cluster: which node answered is not known there.
#[tokio::test]
async fn a_pool_beside_a_cluster_is_refused_with_what_to_do() {
    let (cluster, server) = (RedisCluster::start().await, RedisServer::start());
    let single = deadpool_redis::Config::from_url(cluster.node(0).url())
        .create_pool(Some(deadpool_redis::Runtime::Tokio1))
        .unwrap();
    let urls: Vec<_> = cluster.nodes()[..3].iter().map(RedisServer::url).collect();
    let pool = deadpool_redis::cluster::Config::from_urls(urls)
        .create_pool(Some(deadpool_redis::Runtime::Tokio1))
        .unwrap();
    let refused = async |builder: lock_core::ClientBuilder| {
        let error = builder.connect().await.unwrap_err();
        let ConnectError::Store(fault) = &error else { panic!("{error:?}") };
        assert!(!fault.is_transient(), "{error}");
        error.to_string()
    };
    for builder in [
        LockClient::builder(cluster.url()).redis_pool(single),
        LockClient::builder(cluster.url()).redis_pool(pool.clone()),
    ] {
        let error = refused(builder).await;
        assert!(error.contains("give the URL alone"), "{error}");
    }
    let error = refused(LockClient::builder(server.url()).redis_pool(pool)).await;
    assert!(error.contains("give `redis+cluster:` alone"), "{error}");
}
