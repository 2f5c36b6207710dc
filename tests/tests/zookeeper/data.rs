//! Keys that are strange, and foreign nodes in their directories.

use tests::strange::strange_keys;
use tests::wait::eventually;
use zookeeper_client::CreateMode;

use crate::support::*;

/// F33 (V6, V8): each strange key is a lock of its own, in a directory of its own right under the
/// root, whose name no log could misread.
#[tokio::test]
async fn strange_keys_are_encoded_and_no_two_of_them_are_one_lock() {
    let server = Zoo::start().await;
    let locks = connect(&server.at(LONG)).await;
    let keys = strange_keys();
    let mut guards = Vec::new();
    for key in &keys {
        let guard = locks.lock(key).try_acquire().await.unwrap();
        guards.push(guard.unwrap_or_else(|| panic!("{key} is the lock of another key")));
    }
    let tree = server.tree("/");
    let directories: Vec<_> = tree.iter().filter(|node| node.is_container).collect();
    // And that of the sessions.
    assert_eq!(directories.len(), keys.len() + 1);
    for node in &tree {
        assert!(node.path.bytes().all(|byte| byte.is_ascii_graphic()), "{:?}", node.path);
        assert_eq!(node.path.matches('/').count(), 1 + usize::from(!node.is_container));
    }
    for key in &keys {
        assert_eq!(server.line(key.as_str()).len(), 1, "{key}");
    }
    drop(guards);
    nothing_left(&server, [locks]).await;
}

/// F33 (V8): at the root of the tree `zookeeper` is the server's own: refused at once, with what
/// to do. Below a path it is a key like any other.
#[tokio::test]
async fn the_key_zookeeper_is_refused_at_the_root_and_served_below_a_path() {
    let server = Zoo::start().await;
    let locks = connect(&server.at(LONG)).await;
    let error = locks.lock("zookeeper").wait(ms(5_000)).await.unwrap_err();
    assert!(error.is_unavailable() && !error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("give the URL a path"), "{error}");
    assert_eq!(server.children("/zookeeper"), ["config", "quota"]);
    let below = connect(&with_session(&format!("{}/app/locks", server.url()), LONG)).await;
    let guard = below.lock("zookeeper").await.unwrap();
    assert_eq!(server.line("app/locks/zookeeper").len(), 1);
    guard.release().await.unwrap();
    nothing_left(&server, [locks, below]).await;
}

/// F34 (V2, V5): children that do not queue are passed over: they neither hold the key nor are
/// they touched.
#[tokio::test]
async fn foreign_children_of_a_lock_directory_are_passed_over_and_stay() {
    let server = Zoo::start().await;
    let locks = connect(&server.at(LONG)).await;
    let other = connect(&server.at(LONG)).await;
    server.create("/k", "", CreateMode::Persistent);
    let kazoo = "0123456789abcdef0123456789abcdef__lock__0000000000";
    let foreign = ["0", "-x", "zzz", "sub", "lock-", "lock-x", kazoo, "_c_x-lease-0000000000"];
    for name in foreign {
        server.create(&format!("/k/{name}"), "theirs", CreateMode::Persistent);
    }
    server.create("/k/sub/child", "theirs", CreateMode::Persistent);
    let before = server.tree("/k");
    let guard = locks.lock("k").wait(ms(9_000)).await.unwrap();
    assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn(other.lock("k").acquire());
    eventually("it waits", || server.children("/k").len() == foreign.len() + 2).await;
    guard.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    let seen = locks.inspect("k").await.unwrap();
    assert_eq!((seen.holder().is_some(), seen.waiters.len()), (true, 0));
    next.release().await.unwrap();
    assert_eq!(server.tree("/k"), before);
    for name in ["sub/child"].iter().chain(&foreign) {
        server.delete(&format!("/k/{name}"));
    }
    // A directory that an operator made for good is not ours to remove.
    server.delete("/k");
    nothing_left(&server, [locks, other]).await;
}

/// F34 (V2, V8): a child that cannot go and has a number is a holder that never leaves, as it is
/// to Curator: waited for, never deleted.
#[tokio::test]
async fn a_lock_node_that_does_not_end_is_waited_for_and_never_deleted() {
    let server = Zoo::start().await;
    let locks = connect(&server.at(LONG)).await;
    server.create("/k", "", CreateMode::Container);
    let theirs = server.create("/k/somebody-lock-", "theirs", CreateMode::PersistentSequential);
    let error = locks.lock("k").wait(ms(3_000)).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let waiting = tokio::spawn(locks.lock("k").acquire());
    server.watching("k", 2).await;
    assert!(server.delete(&theirs));
    waiting.await.unwrap().unwrap().release().await.unwrap();
    nothing_left(&server, [locks]).await;
}

/// F34 (V6, V8): an ephemeral node where the directory would be is a clear error, for good and at
/// once; it stays as it is.
#[tokio::test]
async fn an_ephemeral_node_in_place_of_the_directory_is_a_clear_error_and_stays() {
    let server = Zoo::start().await;
    let locks = connect(&server.at(LONG)).await;
    server.create("/k", "theirs", CreateMode::Ephemeral);
    let before = server.node("/k");
    for _ in 0..2 {
        let error = locks.lock("k").wait(ms(5_000)).await.unwrap_err();
        assert!(error.is_unavailable() && !error.is_retryable(), "{error:?}");
        assert!(error.to_string().contains("ephemeral node"), "{error}");
    }
    let error = locks.lock("k").try_acquire().await.err();
    assert!(error.is_some_and(|error| !error.is_retryable()));
    assert_eq!(server.node("/k"), before);
    assert!(server.delete("/k"));
    locks.lock("k").await.unwrap().release().await.unwrap();
    nothing_left(&server, [locks]).await;
}
