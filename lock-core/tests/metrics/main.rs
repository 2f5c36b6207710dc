//! The series of a service, on a paused clock and by a recorder of this thread; the runtime has no
//! other.

mod seen;
mod stage;

use std::collections::BTreeSet;
use std::time::Duration;

use lock_core::LockClient;
use lock_core::memory::Memory;
use lock_core::metrics::{Kind, METRICS, Metric, describe, names};
use lock_core::quorum::{MembershipConfig, Quorum};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::time::sleep;

use seen::{Seen, Series, series};
use stage::Stage;

type Test = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// The word that no name or label may carry.
const SECRET: &str = "account-of-jane-doe";

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Lets all tasks run that can, without the clock going on.
async fn settle() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}

/// Every series that the documentation allows; the store's answers belong to their verbs.
fn documented() -> BTreeSet<Series> {
    let of_locks = METRICS.iter().filter(|metric| metric.name.starts_with("lock_"));
    let all = of_locks.flat_map(|metric| {
        let mut of_metric = vec![Vec::new()];
        // Those of `name` are the application's.
        for (label, values) in metric.labels.iter().filter(|(label, _)| *label != "name") {
            of_metric = of_metric
                .iter()
                .flat_map(|labels: &Vec<(&str, &str)>| {
                    values.iter().map(|value| [labels.as_slice(), &[(*label, *value)]].concat())
                })
                .collect();
        }
        of_metric.into_iter().map(|labels| series(metric.name, &labels))
    });
    let answers = [
        ("attempt", ["granted", "blocked", "fault"]),
        ("renew", ["held", "lost", "fault"]),
        ("withdraw", ["released", "not_held", "fault"]),
    ];
    all.filter(|(name, labels)| {
        let [(_, verb), (_, outcome)] = labels.as_slice() else { return true };
        name != names::STORE_SECONDS
            || answers.iter().any(|(of, ends)| of == verb && ends.contains(&outcome.as_str()))
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn exactly_the_documented_series_are_emitted_and_none_carries_the_key() -> Test {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let stage = Stage::new();
    stage.every_wait().await?;
    stage.a_full_line().await?;
    stage.a_wait_of_no_use().await?;
    stage.both_hand_offs().await?;
    stage.a_wait_in_vain().await?;
    stage.every_loss().await?;
    let seen = Seen::of(&recorder.snapshotter());
    let emitted: BTreeSet<Series> = seen.0.keys().cloned().collect();
    assert_eq!(emitted, documented());
    assert!(!format!("{emitted:?}").contains(SECRET));
    for Metric { name, kind, .. } in METRICS {
        for (_, value) in seen.0.iter().filter(|((of, _), _)| of == name) {
            let as_documented = match value {
                DebugValue::Counter(_) => *kind == Kind::Counter,
                DebugValue::Gauge(_) => *kind == Kind::Gauge,
                DebugValue::Histogram(_) => *kind == Kind::Histogram,
            };
            assert!(as_documented, "{name} is {value:?}");
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lock_with_a_name_is_counted_under_it() -> Test {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let locks = LockClient::memory();
    let named = || locks.lock("k").name("checkout");
    named().await?.release().await?;
    let lost = named().hold_limit(ms(5)).await?;
    assert!(locks.lock("k").try_acquire().await?.is_none());
    assert!(named().try_acquire().await?.is_none());
    lost.lost().await;
    drop(lost);
    let handed = named().await?;
    let waits = tokio::spawn(locks.lock("k").acquire());
    settle().await;
    handed.release().await?;
    waits.await??.release().await?;
    settle().await;
    let seen = Seen::of(&recorder.snapshotter());
    let (own, granted, timeout) =
        (("name", "checkout"), ("outcome", "granted"), ("outcome", "timeout"));
    assert_eq!(seen.count(names::WAIT_SECONDS, &[own, granted]), 3);
    assert_eq!(seen.count(names::WAIT_SECONDS, &[own, timeout]), 1);
    assert_eq!(seen.count(names::HOLD_SECONDS, &[own]), 3);
    assert_eq!(seen.count(names::LOST_TOTAL, &[own, ("reason", "hold_limit")]), 1);
    // Who is handed the key is counted under what it is called itself: nothing.
    assert_eq!(seen.count(names::WAIT_SECONDS, &[granted]), 1);
    assert_eq!(seen.count(names::WAIT_SECONDS, &[timeout]), 1);
    assert_eq!(seen.count(names::HOLD_SECONDS, &[]), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn waits_holds_and_hand_offs_are_counted_and_timed_as_they_were() -> Test {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let snapshotter = recorder.snapshotter();
    let locks = LockClient::memory();
    let held = locks.lock("k").await?;
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let acquire = locks.lock("k").acquire();
            tokio::spawn(async move {
                let guard = acquire.await?;
                sleep(ms(20)).await;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(guard.release().await?)
            })
        })
        .collect();
    settle().await;
    let seen = Seen::of(&snapshotter);
    assert_eq!((seen.gauge(names::WAITERS), seen.gauge(names::HELD)), (3.0, 1.0));
    sleep(ms(10)).await;
    held.release().await?;
    for waiter in waiters {
        waiter.await??;
    }
    settle().await;
    let seen = Seen::of(&snapshotter);
    assert_eq!(seen.count(names::HANDOFFS_TOTAL, &[("kind", "local")]), 3);
    let waits = seen.seconds(names::WAIT_SECONDS, &[("outcome", "granted")]);
    let holds = seen.seconds(names::HOLD_SECONDS, &[]);
    assert_eq!((waits.len(), holds.len()), (3, 4));
    // Timers are good to a millisecond, each.
    let about = |value: &f64, expected: f64| (expected..expected + 0.005).contains(value);
    assert!(waits.iter().zip([0.01, 0.03, 0.05]).all(|(wait, is)| about(wait, is)), "{waits:?}");
    assert!(
        holds.iter().zip([0.01, 0.02, 0.02, 0.02]).all(|(hold, is)| about(hold, is)),
        "{holds:?}"
    );
    // The last look set them back to nothing.
    assert_eq!((seen.gauge(names::WAITERS), seen.gauge(names::HELD)), (-3.0, -1.0));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_is_entered_again_is_one_wait_and_one_hold() -> Test {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let locks = LockClient::memory();
    let outer = locks.lock("k").await?;
    let inner = outer.scope(locks.lock("k").acquire()).await?;
    drop(outer);
    inner.release().await?;
    settle().await;
    let seen = Seen::of(&recorder.snapshotter());
    assert_eq!(seen.count(names::WAIT_SECONDS, &[("outcome", "granted")]), 1);
    assert_eq!(seen.count(names::HOLD_SECONDS, &[]), 1);
    assert_eq!(seen.gauge(names::HELD), 0.0);
    Ok(())
}

#[test]
fn a_recorder_is_told_the_unit_and_the_text_of_each_metric() {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    describe();
    for metric in METRICS {
        match metric.kind {
            Kind::Counter => metrics::counter!(metric.name).increment(1),
            Kind::Gauge => metrics::gauge!(metric.name).set(1),
            _ => metrics::histogram!(metric.name).record(1),
        }
    }
    let all = recorder.snapshotter().snapshot().into_vec();
    assert_eq!(all.len(), METRICS.len());
    for (key, unit, text, _) in all {
        let seconds = key.key().name().ends_with("_seconds");
        let expected = if seconds { metrics::Unit::Seconds } else { metrics::Unit::Count };
        assert_eq!((unit, text.is_some()), (Some(expected), true), "{key:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_members_of_a_quorum_are_counted_by_their_names() -> Test {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let snapshotter = recorder.snapshotter();
    let stores: Vec<_> = (0..3).map(|_| Memory::new()).collect();
    sleep(secs(60)).await;
    let charter = MembershipConfig::new(["a:1", "b:1", "c:1"]).with_lease_max(secs(2));
    let locks = LockClient::with_backend(Quorum::managed(stores.clone(), charter)?);
    let take = async || -> Test {
        let guard = locks.lock(SECRET).lease(secs(1)).await?;
        Ok(guard.release().await?)
    };
    let ready = |seen: &Seen, member| match seen.0.get(&series(names::MEMBER_READY, &[member])) {
        Some(DebugValue::Gauge(ready)) => ready.0,
        other => panic!("{other:?}"),
    };
    let (a, b) = (("member", "a:1"), ("member", "b:1"));
    take().await?;
    settle().await;
    let seen = Seen::of(&snapshotter);
    assert_eq!((ready(&seen, a), ready(&seen, b)), (1.0, 1.0));
    assert!(!seen.seconds(names::MEMBER_SECONDS, &[a]).is_empty());
    stores[0].restart();
    take().await?;
    settle().await;
    let seen = Seen::of(&snapshotter);
    assert_eq!(ready(&seen, a), 0.0);
    assert_eq!(seen.count(names::MEMBER_QUARANTINES_TOTAL, &[a]), 1);
    assert_eq!(seen.count(names::MEMBER_QUARANTINES_TOTAL, &[b]), 0);
    sleep(secs(4)).await;
    let seen = Seen::of(&snapshotter);
    assert_eq!(ready(&seen, a), 1.0);
    assert_eq!(seen.count(names::MEMBER_REPAIRS_TOTAL, &[a]), 1);
    assert!(!format!("{:?}", seen.0.keys()).contains(SECRET));
    Ok(())
}
