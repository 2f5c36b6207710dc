//! Following the master.

use std::time::Instant;

use tests::redis::SentinelSet;

use crate::support::*;

/// The switch is followed within a second of it: a claim that waits at the old master is granted
/// at the new one, and so is one that comes then.
#[tokio::test]
async fn a_planned_switch_is_followed_within_a_second() {
    let set = SentinelSet::start().await;
    let old = set.master();
    let locks = connect(&set.url(), ms(10_000)).await;
    locks.lock("k").await.unwrap().release().await.unwrap();
    let new = set.failover().await;
    assert_ne!(new, old);
    let start = Instant::now();
    let guard = locks.lock("k").await.unwrap();
    assert!(start.elapsed() < ms(1_000), "{:?}", start.elapsed());
    assert!(set.server(new).key("lock:{k}").is_some());
    guard.release().await.unwrap();
}
