//! The series of a service, on a paused clock and by a recorder of this thread; the runtime has no
//! other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lock_core::backend::{Backend, Claim, FaultKind, Mode, Terms};
use lock_core::memory::Memory;
use lock_core::metrics::{Kind, METRICS, Metric, describe, names};
use lock_core::test_util::{Act, Script, Scripted, Verb};
use lock_core::{Key, LockClient, LostCause};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio::task::JoinSet;
use tokio::time::sleep;

type Test = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// What no name or label may carry.
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

/// A series: its name, and its labels in order.
type Series = (String, Vec<(String, String)>);

fn series(name: &str, labels: &[(&str, &str)]) -> Series {
    (name.into(), labels.iter().map(|&(label, value)| (label.into(), value.into())).collect())
}

/// What was recorded; each look forgets what it has seen, gauges too.
struct Seen(BTreeMap<Series, DebugValue>);

impl Seen {
    fn of(snapshotter: &Snapshotter) -> Self {
        let all = snapshotter.snapshot().into_vec().into_iter();
        Self(
            all.map(|(key, _, _, value)| {
                let (name, labels) = key.key().clone().into_parts();
                let labels = labels
                    .into_iter()
                    .map(|label| (label.key().to_owned(), label.value().to_owned()));
                ((name.as_str().to_owned(), labels.collect()), value)
            })
            .collect(),
        )
    }

    /// How often a counter or a histogram was given something.
    fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        match self.0.get(&series(name, labels)) {
            None => 0,
            Some(DebugValue::Counter(count)) => *count,
            Some(DebugValue::Histogram(values)) => values.len() as u64,
            Some(DebugValue::Gauge(_)) => panic!("{name} is a gauge"),
        }
    }

    fn seconds(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        match self.0.get(&series(name, labels)) {
            Some(DebugValue::Histogram(values)) => values.iter().map(|value| value.0).collect(),
            _ => Vec::new(),
        }
    }

    fn gauge(&self, name: &str) -> f64 {
        match self.0.get(&series(name, &[])) {
            Some(DebugValue::Gauge(value)) => value.0,
            _ => panic!("{name} is no gauge"),
        }
    }
}

struct Stage {
    store: Memory,
    script: Script,
    locks: LockClient,
    rival: LockClient,
}

impl Stage {
    fn new() -> Self {
        let store = Memory::new();
        let (backend, script) = Scripted::new(store.clone());
        let rival = LockClient::with_backend(store.clone());
        Self { store, script, locks: LockClient::with_backend(backend), rival }
    }

    async fn every_wait(&self) -> Test {
        let locks = &self.locks;
        let held = locks.lock(SECRET).await?;
        assert!(locks.lock(SECRET).wait(ms(10)).await.unwrap_err().is_timeout());
        assert!(locks.lock(SECRET).lease(ms(0)).await.unwrap_err().is_rejected());
        let waiter = tokio::spawn(locks.lock(SECRET).acquire());
        settle().await;
        waiter.abort();
        settle().await;
        held.release().await?;
        self.script.next(Verb::Attempt, Act::Err(FaultKind::Refused));
        assert!(locks.lock(SECRET).await.unwrap_err().is_unavailable());
        let closed = LockClient::memory();
        closed.shutdown(ms(0)).await;
        assert!(closed.lock(SECRET).await.unwrap_err().is_closed());
        Ok(())
    }

    async fn a_full_line(&self) -> Test {
        let narrow = LockClient::builder("memory:").waiters_per_key_max(1).connect().await?;
        let held = narrow.lock(SECRET).await?;
        let waiter = tokio::spawn(narrow.lock(SECRET).acquire());
        settle().await;
        assert!(narrow.lock(SECRET).await.unwrap_err().is_overloaded());
        held.release().await?;
        drop(waiter.await??);
        settle().await;
        Ok(())
    }

    async fn a_wait_of_no_use(&self) -> Test {
        let mut holders = JoinSet::new();
        for _ in 0..20 {
            let acquire = self.locks.lock(SECRET).wait(secs(60)).acquire();
            holders.spawn(async move {
                let guard = acquire.await?;
                sleep(ms(100)).await;
                guard.release().await?;
                Test::Ok(())
            });
        }
        sleep(ms(1_050)).await;
        let hasty = self.locks.lock(SECRET).wait(ms(200)).admission(true);
        assert!(hasty.await.unwrap_err().is_overloaded());
        while let Some(holder) = holders.join_next().await {
            holder??;
        }
        settle().await;
        Ok(())
    }

    async fn both_hand_offs(&self) -> Test {
        let held = self.locks.lock(SECRET).await?;
        let here = tokio::spawn(self.locks.lock(SECRET).acquire());
        settle().await;
        held.release().await?;
        let held = here.await??;
        let elsewhere = tokio::spawn(self.rival.lock(SECRET).acquire());
        sleep(ms(1)).await;
        held.release().await?;
        drop(elsewhere.await??);
        settle().await;
        Ok(())
    }

    async fn every_loss(&self) -> Test {
        let locks = &self.locks;
        let limited = locks.lock(SECRET).hold_limit(ms(5)).await?;
        assert_eq!(limited.lost().await.cause(), LostCause::HoldLimit);
        drop(limited);
        self.script.always(Verb::Renew, Act::Err(FaultKind::Transient));
        let expired = locks.lock(SECRET).lease(secs(3)).await?;
        assert_eq!(expired.lost().await.cause(), LostCause::Expired);
        drop(expired);
        self.script.heal();
        let taken = locks.lock(SECRET).lease(secs(9)).await?;
        let (claim, _) = *self.script.claims().last().expect("one was opened");
        let terms =
            Terms { lease: secs(9), mode: Mode::Exclusive, fences: 1, patience: None, name: None };
        // Once it was held on to.
        sleep(secs(4)).await;
        self.store.claim(&Key::new(SECRET)?, claim, terms).withdraw().await?;
        assert_eq!(taken.lost().await.cause(), LostCause::Taken);
        drop(taken);
        settle().await;
        self.script.next(Verb::Withdraw, Act::Err(FaultKind::Transient));
        locks.lock(SECRET).await?.release().await?;
        let abandoned = locks.lock(SECRET).await?;
        locks.shutdown(ms(1)).await;
        assert_eq!(abandoned.lost().await.cause(), LostCause::Shutdown);
        Ok(())
    }

    /// A claim that gives up behind a rival held nothing.
    async fn a_wait_in_vain(&self) -> Test {
        let held = self.rival.lock(SECRET).await?;
        assert!(self.locks.lock(SECRET).wait(secs(1)).await.unwrap_err().is_timeout());
        settle().await;
        held.release().await?;
        Ok(())
    }
}

/// Every series that the documentation allows; the store's answers belong to their verbs.
fn documented() -> BTreeSet<Series> {
    let of_locks = METRICS.iter().filter(|metric| metric.name.starts_with("lock_"));
    let all = of_locks.flat_map(|metric| {
        let mut of_metric = vec![Vec::new()];
        for (label, values) in metric.labels {
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
    let twice = async {
        let outer = locks.lock("k").await?;
        let inner = locks.lock("k").await?;
        drop(outer);
        inner.release().await?;
        Test::Ok(())
    };
    locks.scope(twice).await?;
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
