//! Fencing tokens outlive what they were counted by.

use tests::wait::eventually;
use tests::zookeeper::ZooKeeperEnsemble;

use crate::connect;

/// F06 (V2): the directory's own counter begins at zero again when the server removes it empty,
/// and the servers lose their memory when all of them start anew; tokens grow all the same.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_grow_across_the_removal_of_the_directory_and_a_restart_of_all_servers() {
    let mut ensemble = ZooKeeperEnsemble::start(3);
    let locks = connect(&ensemble.url()).await;
    let mut last = None;
    for round in 0..3 {
        for _ in 0..3 {
            let guard = locks.lock("k").await.unwrap();
            assert!(
                Some(guard.token()) > last,
                "a finding of safety: round {round}: {last:?} then {guard:?}"
            );
            last = Some(guard.token());
            guard.release().await.unwrap();
        }
        let leader = ensemble.server(ensemble.leader());
        eventually("the directory is gone", || leader.node("/k").is_none()).await;
        if round == 1 {
            ensemble.restart_all();
        }
    }
}
