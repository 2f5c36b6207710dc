//! The answers of nodes that do not serve a slot: each is met, and nobody notices.

use tests::redis::RedisCluster;
use tests::stalls::Stopwatch;

use crate::support::*;

/// V8: a slot that has moved is found by one redirection, and the next request goes there at once.
#[tokio::test]
async fn a_slot_that_moved_is_found_by_one_redirection() {
    let cluster = RedisCluster::start().await;
    let locks = connect(&cluster.url(), ms(10_000)).await;
    let first = locks.lock("k").await.unwrap();
    let token = first.token();
    first.release().await.unwrap();
    let from = cluster.owner("k");
    let to = (from + 1) % 3;
    cluster.move_slot(cluster.slot("k"), from, to);
    let before = cluster.refusals("MOVED");
    let second = locks.lock("k").await.unwrap();
    assert!(second.token() > token, "a finding of safety: the last token came along");
    second.release().await.unwrap();
    for _ in 0..20 {
        locks.lock("k").await.unwrap().release().await.unwrap();
    }
    // The subscription of the first asks there too, sooner or later, and may ask again: these are
    // forty requests.
    let met = cluster.refusals("MOVED") - before;
    assert!((1..=5).contains(&met), "{met}");
    nothing_left(&cluster, [locks]).await;
}

/// V4, V8: the keys of a lock are in two places: an attempt waits within its budget, says that
/// the store does not serve it, and is served as soon as they are in one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_waits_within_its_budget_while_the_keys_are_on_their_way() {
    let cluster = RedisCluster::start().await;
    let locks = connect(&cluster.url(), ms(10_000)).await;
    let (slot, from) = (cluster.slot("k"), cluster.owner("k"));
    let to = (from + 1) % 3;
    locks.lock("k").await.unwrap().release().await.unwrap();
    cluster.begin_move(slot, from, to);
    let start = Stopwatch::start();
    let error = locks.lock("k").wait(ms(700)).await.unwrap_err();
    assert!(start.own() < ms(700) + SLACK, "{:?}", start.elapsed());
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    assert!(cluster.refusals("TRYAGAIN") >= 1);
    // Nothing is at the old place any more, and not everything is at the new one.
    cluster.move_keys(slot, from, to, |_| true);
    let waiting = tokio::spawn(locks.lock("k").acquire());
    let asked = cluster.refusals("ASK");
    tests::wait::eventually("it asks at the new place", || cluster.refusals("ASK") > asked).await;
    assert!(!waiting.is_finished());
    cluster.end_move(slot, from, to);
    let guard = waiting.await.unwrap().unwrap();
    guard.release().await.unwrap();
    nothing_left(&cluster, [locks]).await;
}

/// V4, V8: a cluster that does not serve is not available, and may be again.
#[tokio::test]
async fn a_cluster_that_is_down_is_unavailable_within_the_budget() {
    let mut cluster = RedisCluster::hasty().await;
    let locks = connect(&cluster.url_of_all(None), ms(10_000)).await;
    let alive = cluster.owner("k");
    locks.lock("k").await.unwrap().release().await.unwrap();
    for number in (0..6).filter(|number| number % 3 != alive) {
        cluster.kill(number);
    }
    tests::wait::eventually("the node of the key gives up", || {
        let info: String = cluster.node(alive).command(&["CLUSTER", "INFO"]);
        info.contains("cluster_state:fail")
    })
    .await;
    let start = Stopwatch::start();
    let error = locks.lock("k").wait(ms(3_000)).await.unwrap_err();
    assert!(start.own() < ms(3_000) + SLACK, "{:?}", start.elapsed());
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    assert!(tests::said::everything(&error).contains("cluster is down"), "{error}");
    assert!(cluster.refusals("CLUSTERDOWN") >= 1);
}
