//! Keys that are many, over all slots.

use std::time::Instant;

use tests::redis::{KeyInfo, RedisCluster};
use tests::wait::eventually;

use crate::support::*;

const KEYS: usize = 1_200;

/// Channels that are kept at a node for locks to come.
const CHANNELS_KEPT_MAX: usize = 256;

/// V6: keys that are used once each leave nothing in the client and a bounded number of
/// subscriptions at the nodes; held all at once they are renewed in few requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_over_all_slots_leave_few_subscriptions_and_are_renewed_together() {
    let cluster = RedisCluster::start().await;
    let locks = connect(&cluster.url(), ms(15_000)).await;
    let (mut guards, began) = (Vec::new(), Instant::now());
    for block in 0..KEYS / 100 {
        let acquires = (0..100).map(|n| {
            let locks = locks.clone();
            tokio::spawn(async move { locks.lock(format!("k:{block}:{n}")).await })
        });
        for acquire in acquires.collect::<Vec<_>>() {
            guards.push(acquire.await.unwrap().unwrap());
        }
    }
    let (spread, round) = (began.elapsed(), u64::try_from(KEYS).unwrap());
    // Keys that were had at other times are renewed at other times: a node is asked each 5 ms then.
    let apart = u64::try_from(3 * spread.as_millis() / 5).unwrap();
    // A busy machine may answer late, and then each key is asked for once more by itself. So the
    // least of three counts.
    let mut least = u64::MAX;
    for _ in 0..3 {
        let (renewed, asked) = (locks.stats().renewals, locks.stats().store_requests);
        eventually("a round of renewals", || locks.stats().renewals >= renewed + round).await;
        least = least.min(locks.stats().store_requests - asked);
        if least < round / 2 + apart {
            break;
        }
    }
    assert!(least < round / 2 + apart, "{least} requests for {round} renewals, {spread:?} apart");
    assert!(guards.iter().all(|guard| guard.is_held()));
    for guard in guards {
        guard.release().await.unwrap();
    }
    eventually("no key is busy", || locks.stats().keys == 0).await;
    eventually("few channels are kept", || {
        cluster.masters().iter().all(|node| node.channels().len() <= CHANNELS_KEPT_MAX)
    })
    .await;
    let kept: usize = cluster.masters().iter().map(|node| node.channels().len()).sum();
    assert!(kept > 0, "for locks to come");
    for node in cluster.masters() {
        assert!(node.keys().iter().all(KeyInfo::is_clock));
    }
    nothing_left(&cluster, [locks]).await;
}
