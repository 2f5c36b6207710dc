//! What a URL with a layout may be for.

use lock_core::LockClient;
use lock_core::error::ConnectError;
use lock_core::redis::{Redis, RedisPool, RedisRecords, Redisson};
use tests::redis::{RedisOptions, RedisServer, SentinelSet};

fn said(answer: Result<impl Sized, ConnectError>) -> String {
    answer.err().expect("a URL that is refused").to_string()
}

#[tokio::test]
async fn what_has_no_such_layout_refuses_the_url_and_says_so() {
    let url = "redis://127.0.0.1:1?layout=redisson";
    assert!(said(Redis::connect(url, None).await).contains("`layout=redisson` is for"));
    assert!(said(RedisRecords::connect(url).await).contains("`layout=redisson` is for"));
    let none = said(Redisson::connect("redis://127.0.0.1:1").await);
    assert!(none.contains("`layout=redisson` is missing"), "{none}");
    let other = said(LockClient::connect("redis://127.0.0.1:1?layout=jedis").await);
    assert!(other.contains("`layout` is `redisson`"), "{other}");
    for url in ["redis+cluster://127.0.0.1:1?layout=redisson", "redlock://a,b,c?layout=redisson"] {
        let refused = said(LockClient::connect(url).await);
        assert!(refused.contains("layout"), "{refused}");
    }
    let pool = deadpool_redis::Config::from_url("redis://127.0.0.1:1").create_pool(None).unwrap();
    let pooled = LockClient::builder(url).redis_pool(RedisPool::from(pool)).connect().await;
    assert!(said(pooled).contains("leave the pool out"));
}

#[tokio::test]
async fn a_user_without_a_right_is_told_which() {
    let may =
        "~lock:* ~redisson_lock_token:* ~order:* &lock:push:* &redisson_lock__channel:* +@all";
    let users =
        [format!("user some on >some {may}"), format!("user few on >few {may} -hset -publish")];
    let server = RedisServer::with(RedisOptions::new().acl(users));
    let url = |user: &str| format!("{}?layout=redisson", server.url_as(user, user));
    let refused = said(LockClient::connect(&url("few")).await);
    assert!(refused.contains("+hset") && refused.contains("+publish"), "{refused}");
    assert!(refused.contains("~redisson_lock_token:*"), "{refused}");
    let locks = LockClient::connect(&url("some")).await.unwrap();
    locks.lock("order:42").await.unwrap().release().await.unwrap();
    let error = locks.lock("cart:42").await.unwrap_err();
    assert!(error.is_unavailable() && !error.is_retryable(), "{error:?}");
}

/// Behind Sentinel it is the same, and a hold that the new master does not know is told lost.
#[tokio::test]
async fn the_master_of_a_sentinel_set_is_followed() {
    let set = SentinelSet::start().await;
    let url = format!("{}?layout=redisson", set.url());
    let locks = LockClient::connect(&url).await.unwrap();
    let before = locks.lock("order:42").await.unwrap();
    let token = before.token();
    before.release().await.unwrap();
    set.failover().await;
    let after = locks.lock("order:42").wait(std::time::Duration::from_secs(30)).await.unwrap();
    assert!(after.token() > token);
    let held = set.server(set.master()).command::<u64>(&["HLEN", "order:42"]);
    assert_eq!(held, 1);
    after.release().await.unwrap();
}
