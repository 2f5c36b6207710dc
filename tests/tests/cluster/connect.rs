//! The answers at connect.

use lock_core::LockClient;
use lock_core::error::ConnectError;
use tests::redis::{RedisCluster, RedisServer};
use tests::said::everything;

use crate::support::*;

async fn refusal(url: &str) -> (String, bool) {
    let error = LockClient::connect(url).await.unwrap_err();
    let ConnectError::Store(fault) = &error else { panic!("{error:?}") };
    (everything(&error), fault.is_transient())
}

/// V8: a URL of the wrong kind is refused for good, and the error says which is the right one.
#[tokio::test]
async fn one_server_and_a_cluster_are_not_taken_for_each_other() {
    let server = RedisServer::start();
    let (text, transient) = refusal(&format!("redis+cluster://{}", server.addr())).await;
    assert!(!transient && text.contains("not a node of a cluster: use `redis://`"), "{text}");
    drop(server);
    let cluster = RedisCluster::start().await;
    for node in cluster.nodes() {
        let (text, transient) = refusal(&node.url()).await;
        assert!(!transient && text.contains("use `redis+cluster://`"), "{text}");
    }
    nothing_left(&cluster, []).await;
}

/// V8: any node of the URL that answers is enough, a replica too; if none does, that is said, and
/// may pass.
#[tokio::test]
async fn one_node_of_the_url_that_answers_is_enough() {
    let mut cluster = RedisCluster::hasty().await;
    let gone = cluster.node(1).addr();
    let (text, transient) =
        refusal(&format!("redis+cluster://127.0.0.1:1,{}", "127.0.0.1:2")).await;
    assert!(transient, "{text}");
    for (key, seed) in [("a", 0), ("b", 3), ("c", 2)] {
        let seed = cluster.node(seed).addr();
        let url = format!("redis+cluster://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,{seed}");
        let locks = connect(&url, ms(5_000)).await;
        locks.lock(key).await.unwrap().release().await.unwrap();
        nothing_left(&cluster, [locks]).await;
    }
    cluster.kill(1);
    let url = format!("redis+cluster://{gone},{}", cluster.node(4).addr());
    let locks = connect(&url, ms(5_000)).await;
    cluster.settled().await;
    locks.lock("d").await.unwrap().release().await.unwrap();
    nothing_left(&cluster, [locks]).await;
}

/// V8: a client of a cluster is fenced and fair as one of a server, and no member of a quorum.
#[tokio::test]
async fn a_cluster_promises_what_a_server_does_but_to_be_one_of_a_quorum() {
    let (server, cluster) = (RedisServer::start(), RedisCluster::start().await);
    let one = connect(&server.url(), ms(5_000)).await.capabilities();
    let many = connect(&cluster.url(), ms(5_000)).await.capabilities();
    assert!(one.quorum && !many.quorum);
    let mut same = many;
    same.quorum = true;
    assert_eq!(same, one);
}
