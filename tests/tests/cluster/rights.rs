//! F31 at a cluster: users and rights.

use lock_core::LockClient;
use lock_core::error::ConnectError;
use tests::redis::{RedisCluster, RedisOptions};
use tests::said::everything;
use tests::wait::eventually;

use crate::support::*;

const DOCUMENT: &str = include_str!("../../../docs/redis-acl.md");

/// A password that appears nowhere by chance.
const PASSWORD: &str = "pw-7Hq2zX9";

/// The line that `docs/redis-acl.md` gives for a cluster, with a password.
fn documented() -> String {
    let mut lines = DOCUMENT.lines().skip_while(|line| *line != "## Cluster");
    let line = lines.find(|line| line.starts_with("user ")).expect("the ACL line");
    line.replace("CHANGE-ME", PASSWORD)
}

/// A cluster on which the default user may do nothing, and `locks` what the document says.
async fn cluster() -> RedisCluster {
    let users = ["user default off".to_owned(), documented()];
    RedisCluster::with(RedisOptions::new().acl(users)).await
}

fn set(cluster: &RedisCluster, rules: &[&str]) {
    for node in cluster.nodes() {
        node.command::<()>(&[&["ACL", "SETUSER", "locks"][..], rules].concat());
    }
}

/// The rights that the nodes refused to the user of the lock, by their logs.
fn refusals(cluster: &RedisCluster) -> Vec<String> {
    let log = |node: &tests::redis::RedisServer| -> Vec<Vec<redis::Value>> {
        node.command(&["ACL", "LOG"])
    };
    let object = |entry: Vec<redis::Value>| {
        let text = |value: &redis::Value| redis::from_redis_value::<String>(value.clone()).ok();
        let mut pairs = entry.chunks_exact(2);
        pairs.find(|pair| text(&pair[0]).as_deref() == Some("object")).and_then(|p| text(&p[1]))
    };
    cluster.nodes().iter().flat_map(log).filter_map(object).collect()
}

/// F31 (V6, V8): the documented line is enough for the whole life of a lock, its slot's move
/// included, and nothing but `INFO`, which is optional, was refused on the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_are_enough_at_a_cluster() {
    let cluster = cluster().await;
    let url = cluster.url_of_all(Some(("locks", PASSWORD)));
    let (a, b) = (connect(&url, ms(2_000)).await, connect(&url, ms(2_000)).await);
    assert!(!format!("{a:?}").contains(PASSWORD));
    let first = a.lock("k").await.unwrap();
    assert!(b.lock("k").try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn(b.lock("k").acquire());
    line_of(&cluster, "k", 1).await;
    assert_eq!(a.inspect("k").await.unwrap().waiters.len(), 1);
    let renewed = a.stats().renewals;
    eventually("renewals", || a.stats().renewals >= renewed + 2).await;
    first.release().await.unwrap();
    let second = waiting.await.unwrap().unwrap();
    assert_eq!(b.stats().handoffs_remote, 1);
    let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
    let to = (from + 1) % 3;
    cluster.begin_move(slot, from, to);
    // MIGRATE logs in as nobody.
    for node in cluster.nodes() {
        node.command::<()>(&["ACL", "SETUSER", "default", "on", "nopass", "~*", "+@all"]);
    }
    cluster.move_keys(slot, from, to, |key| key == "lock:{k}");
    let renewed = b.stats().renewals;
    eventually("renewals on the way", || b.stats().renewals >= renewed + 4).await;
    cluster.end_move(slot, from, to);
    assert!(a.force_release("k").await.unwrap());
    second.lost().await;
    drop(second);
    // Channels that nobody needs are given up.
    for n in 0..900 {
        a.lock(format!("many:{n}")).await.unwrap().release().await.unwrap();
    }
    for object in refusals(&cluster) {
        assert!(object == "info" || object.starts_with("client"), "refused: {object}");
    }
    for node in cluster.masters() {
        node.command::<()>(&["FLUSHALL"]);
    }
    nothing_left(&cluster, [a, b]).await;
}

/// F31 (V8): none of the documented rights can go: without it no client is made, and the error
/// names it.
#[tokio::test]
async fn each_right_at_a_cluster_is_needed_and_named_at_connect_when_it_is_missing() {
    let cluster = cluster().await;
    let url = cluster.url_of_all(Some(("locks", PASSWORD)));
    let refused = async || {
        let error = LockClient::connect(&url).await.expect_err("a refusal");
        let ConnectError::Store(fault) = &error else { panic!("{error:?}") };
        assert!(!fault.is_transient(), "{error}");
        let text = everything(&error);
        assert!(!text.contains(PASSWORD), "the password is told: {text}");
        error.to_string().to_lowercase()
    };
    let line = documented();
    let rights: Vec<_> = line.split(' ').filter_map(|word| word.strip_prefix('+')).collect();
    assert!(rights.len() > 20, "{line}");
    for right in rights {
        set(&cluster, &[&format!("-{right}")]);
        let error = refused().await;
        assert!(error.contains(right), "without +{right}: {error}");
        set(&cluster, &[&format!("+{right}")]);
    }
    for (without, back) in [("resetkeys", "~lock:*"), ("resetchannels", "&lock:push:*")] {
        set(&cluster, &[without]);
        let error = refused().await;
        assert!(error.contains(&back[1..]), "without {back}: {error}");
        set(&cluster, &[back]);
    }
    set(&cluster, &["resetpass", ">pw-Another1"]);
    let error = refused().await;
    assert!(error.contains("wrongpass"), "{error}");
    nothing_left(&cluster, []).await;
}
