//! The leader dies.

use lock_core::error::LossReason;
use tests::wait::eventually;
use tests::zookeeper::ZooKeeperEnsemble;

use crate::connect;

/// F08 (V2, V3, V5): nothing is lost with the leader; a holder keeps its lock if a new leader is
/// there in time, and is told if not, and the line goes on.
#[tokio::test(flavor = "multi_thread")]
async fn holders_and_waiters_outlive_the_leader() {
    let mut ensemble = ZooKeeperEnsemble::start(3);
    let url = ensemble.url() + "?session=20s";
    let (one, two) = (connect(&url).await, connect(&url).await);
    let held = one.lock("k").await.unwrap();
    let token = held.token();
    let waiting = tokio::spawn(two.lock("k").acquire());
    eventually("one waits", || two.stats().waiters == 1).await;
    let first = ensemble.leader();
    ensemble.kill(first);
    assert_ne!(ensemble.leader(), first);
    // Answered by the new leader, so the session has found its way there, or is over.
    let renewals = one.stats().renewals;
    eventually("a renewal, or the word", || one.stats().renewals > renewals || !held.is_held())
        .await;
    if held.is_held() {
        assert!(!waiting.is_finished(), "a finding of safety: two hold the key");
        held.release().await.unwrap();
    } else {
        assert_eq!(held.lost().await.reason(), LossReason::Expired);
    }
    let next = waiting.await.unwrap().unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
    let seen = two.inspect("k").await.unwrap();
    assert!(seen.holder().is_none() && seen.waiters.is_empty(), "{seen:?}");
}

/// F09 (V4, V8): a client that only knows a minority is told that the store is out of reach, and
/// is served again once there is a majority.
#[tokio::test(flavor = "multi_thread")]
async fn a_minority_grants_nothing() {
    let mut ensemble = ZooKeeperEnsemble::start(3);
    let left = ensemble.followers()[0];
    let gone = [ensemble.leader(), ensemble.followers()[1]];
    let locks = connect(&ensemble.url_of(left)).await;
    gone.iter().for_each(|server| ensemble.kill(*server));
    let wait = std::time::Duration::from_secs(3);
    let error = locks.lock("k").wait(wait).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    ensemble.start_again(gone[0]);
    let guard = locks.lock("k").await.unwrap();
    assert!(guard.is_held());
    guard.release().await.unwrap();
}
