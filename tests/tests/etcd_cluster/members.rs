//! Members that die, hang, or are cut off.

use std::time::Duration;

use lock_core::LockClient;
use tests::etcd::EtcdCluster;
use tests::proxy::Proxy;
use tests::support::{connect, ms};
use tests::wait::{eventually, within};
use tokio::task::JoinSet;

async fn client(cluster: &EtcdCluster) -> LockClient {
    connect(&format!("{}/p?session=5s", cluster.url()), ms(30_000)).await
}

/// F06, V1, V2: a hold outlives the leader, and the next is granted behind it.
#[tokio::test]
async fn a_hold_outlives_a_leader_that_is_killed_or_stopped() {
    let mut cluster = EtcdCluster::start(3);
    let (one, two) = (client(&cluster).await, client(&cluster).await);
    for is_killed in [true, false] {
        let guard = within("a free key", one.lock("k").acquire()).await.expect("a grant");
        let next = tokio::spawn(two.lock("k").acquire());
        let leader = cluster.leader();
        let other = (leader + 1) % cluster.len();
        eventually("it waits", || cluster.member(other).keys("p/k").len() == 2).await;
        if is_killed {
            cluster.member_mut(leader).kill();
        } else {
            cluster.member(leader).pause();
        }
        eventually("another leads", || cluster.member(other).is_well()).await;
        assert!(guard.is_held(), "{:?}", guard.lost().await);
        assert!(!next.is_finished(), "two hold the key");
        let token = guard.token();
        within("a release", guard.release()).await.expect("a release");
        let next = within("the next", next).await.expect("no panic").expect("a grant");
        assert!(next.token() > token);
        within("a release", next.release()).await.expect("a release");
        if is_killed {
            cluster.member_mut(leader).restart();
        } else {
            cluster.member(leader).resume();
            eventually("it is back", || cluster.member(leader).is_well()).await;
        }
    }
}

/// F08, V1: a holder behind a member that hears nothing of the others is told by its own clock,
/// before a rival is granted.
#[tokio::test]
async fn a_holder_that_is_cut_off_is_told_before_its_rival_is_granted() {
    let cluster = EtcdCluster::start(3);
    let proxy = Proxy::etcd(cluster.member(0).addr());
    let cut_off = connect(&format!("{}/p?session=3s", proxy.url()), ms(30_000)).await;
    let rival = client(&cluster).await;
    let guard = cut_off.lock("k").await.expect("a free key");
    let next = tokio::spawn(rival.lock("k").acquire());
    eventually("it waits", || cluster.member(1).keys("p/k").len() == 2).await;
    proxy.black_hole();
    within("the word", guard.lost()).await;
    assert!(!next.is_finished(), "the rival was granted first");
    let next = within("the next", next).await.expect("no panic").expect("a grant");
    next.release().await.expect("a release");
}

/// V5: a key that lingers is given back to a process that wants it, long before its time is over:
/// while the members are busy, and again when one of them has died.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_lingers_is_given_back_while_the_cluster_is_busy() {
    const LINGER: Duration = Duration::from_secs(3_600);
    let mut cluster = EtcdCluster::start(3);
    let (one, two, others) =
        (client(&cluster).await, client(&cluster).await, client(&cluster).await);
    let mut busy = JoinSet::new();
    for key in 0..64 {
        let others = others.clone();
        busy.spawn(async move {
            loop {
                // While no member leads, it is refused.
                if let Ok(guard) = others.lock(format!("busy:{key}")).acquire().await {
                    drop(guard.release().await);
                }
            }
        });
    }
    for is_one_away in [false, true] {
        let leader = cluster.leader();
        let other = (leader + 1) % cluster.len();
        if is_one_away {
            cluster.member_mut(leader).kill();
            eventually("another leads", || cluster.member(other).is_well()).await;
        }
        let guard = within("a free key", one.lock("k").linger(LINGER).acquire()).await;
        let guard = guard.expect("a grant");
        let token = guard.token();
        within("a release", guard.release()).await.expect("a release");
        assert_eq!(cluster.member(other).keys("p/k").len(), 1, "it lingers");
        let next = within("what lingers", two.lock("k").acquire()).await.expect("a grant");
        assert!(next.token() > token);
        within("a release", next.release()).await.expect("a release");
    }
    assert!(busy.try_join_next().is_none(), "one of the others has panicked");
}
