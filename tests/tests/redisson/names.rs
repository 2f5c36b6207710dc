//! What is at the server, and what others may have put there.

use std::time::Duration;

use lock_core::LockClient;
use tests::redis::RedisServer;

const COUNTER: &str = "redisson_lock_token:{order:42}";

async fn client(server: &RedisServer) -> LockClient {
    LockClient::connect(&format!("{}?layout=redisson", server.url())).await.unwrap()
}

#[tokio::test]
async fn a_lock_is_a_hash_with_its_holder_and_nothing_stays_of_it() {
    let server = RedisServer::start();
    let locks = client(&server).await;
    let guard = locks.lock("order:42").await.unwrap();
    let key = server.key("order:42").unwrap();
    assert_eq!(key.kind, "hash");
    assert!(key.ttl_ms.is_some());
    assert_eq!(server.command::<Vec<String>>(&["HVALS", "order:42"]), ["1"]);
    let seen = locks.inspect("order:42").await.unwrap();
    assert_eq!(seen.holders.len(), 1, "{seen:?}");
    assert!(seen.holders[0].about.as_deref().unwrap_or_default().contains("pid="), "{seen:?}");
    guard.release().await.unwrap();
    let left = server.keys().into_iter().filter(|key| !key.is_clock());
    assert_eq!(left.collect::<Vec<_>>(), []);
}

/// An `RFencedLock` of the name counts its grants at a key of its own, which stays.
#[tokio::test]
async fn tokens_are_above_those_of_a_fenced_lock_and_it_goes_on_above_ours() {
    let server = RedisServer::start();
    let locks = client(&server).await;
    let take = async || {
        let guard = locks.lock("order:42").await.unwrap();
        let token = guard.token().get();
        guard.release().await.unwrap();
        token
    };
    let first = take().await;
    assert!(server.key(COUNTER).is_none(), "nobody has one");
    // One that counts from 1, and one that is ahead of the server's clock.
    for given in [7, first + (1 << 40)] {
        server.command::<()>(&["SET", COUNTER, &given.to_string()]);
        let token = take().await;
        assert!(token > given && token > first, "{token}, {given}, {first}");
        let counted = server.command::<u64>(&["GET", COUNTER]);
        assert!(counted >= token, "{counted}, {token}");
        let next = server.command::<u64>(&["INCR", COUNTER]);
        assert!(take().await > next);
    }
}

#[tokio::test]
async fn what_is_no_lock_stays_as_it_is_and_is_told() {
    let server = RedisServer::start();
    let locks = client(&server).await;
    server.command::<()>(&["SET", "order:42", "a value"]);
    let error = locks.lock("order:42").wait(Duration::from_secs(9)).await.unwrap_err();
    assert!(error.is_unavailable() && !error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("is no lock"), "{error}");
    assert!(locks.force_release("order:42").await.is_err());
    assert_eq!(server.command::<String>(&["GET", "order:42"]), "a value");
    server.command::<()>(&["DEL", "order:42"]);
    server.command::<()>(&["SET", COUNTER, "no number"]);
    let error = locks.lock("order:42").await.unwrap_err();
    assert!(error.to_string().contains("is no lock"), "{error}");
    assert!(server.key("order:42").is_none(), "nobody holds it");
}
