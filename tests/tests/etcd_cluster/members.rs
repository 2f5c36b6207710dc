//! Members that die, hang, or are cut off.

use lock_core::LockClient;
use tests::etcd::EtcdCluster;
use tests::proxy::Proxy;
use tests::support::{connect, ms};
use tests::wait::{eventually, within};

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
