//! An application's own pools, one for each member.

use deadpool_redis::{Config, Pool, Runtime};
use lock_core::LockClient;
use lock_core::error::ConnectError;
use tests::redis::RedisServer;

use crate::support::*;

fn pool(server: &RedisServer) -> Pool {
    Config::from_url(server.url()).create_pool(Some(Runtime::Tokio1)).expect("a good URL")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_go_through_the_pools_and_a_member_that_was_started_anew_is_seen_there_too() {
    let mut servers = Servers::start(3);
    let pools = servers.all.iter().map(pool);
    let locks =
        LockClient::builder(servers.url()).redis_pools(pools).connect().await.expect("three");
    let before = lock(&locks, "k").await.token();
    let enrolment = servers.enrolment(0).expect("a member");
    servers.all[0].restart();
    // The member is asked about a key that no claim is open for any more.
    drop(lock(&locks, "another").await);
    servers.repaired(0, &enrolment).await;
    servers.all[1].kill();
    assert!(lock(&locks, "k").await.token() > before);
}

#[tokio::test]
async fn pools_that_do_not_fit_are_refused() {
    let servers = Servers::start(3);
    let builder = || LockClient::builder(servers.url());
    let few = builder().redis_pools([pool(&servers.all[0])]).connect().await.unwrap_err();
    assert!(few.to_string().contains("1 pools for 3 servers"), "{few}");
    let one = builder().redis_pool(pool(&servers.all[0])).connect().await.unwrap_err();
    assert!(one.to_string().contains("redis_pools"), "{one}");
    // One too few lead to their own members.
    let crossed = [1, 0, 2].map(|place| pool(&servers.all[place]));
    let error = builder().redis_pools(crossed).connect().await.unwrap_err();
    assert!(matches!(&error, ConnectError::Store(fault) if !fault.is_transient()), "{error}");
    assert!(error.to_string().contains("the pool leads to another server"), "{error}");
}
