//! The requests of a service, as those see them who watch it.

mod common;

use std::collections::BTreeMap;

use lock_core::LockClient;
use lock_core::metrics::{METRICS as OF_LOCKS, Metric};
use lock_tower::LockLayer;
use lock_tower::metrics::{METRICS, names};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use common::{Probe, buy, ms, send, settle, shop, spawn};

const SECRET: &str = "account-of-jane-doe";

/// How often each series was given something, as `name{label=value}`.
fn counts(recorder: &DebuggingRecorder) -> BTreeMap<String, u64> {
    let all = recorder.snapshotter().snapshot().into_vec().into_iter();
    all.map(|(key, _, _, value)| {
        let labels = key.key().labels().map(|label| format!("{}={}", label.key(), label.value()));
        let series = format!("{}{{{}}}", key.key().name(), labels.collect::<String>());
        let count = match value {
            DebugValue::Counter(count) => count,
            DebugValue::Histogram(values) => values.len() as u64,
            DebugValue::Gauge(_) => 0,
        };
        (series, count)
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_by_code_and_timed_by_outcome_without_the_key() {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let locks = LockClient::memory();
    let layer = LockLayer::new(locks).wait(ms(50)).retries(0);
    let probe = Probe::new();
    let app = shop(layer.waiters_per_key(1), &probe);
    let first = spawn(&app, buy(SECRET));
    settle().await;
    let waiter = spawn(&app, buy(SECRET));
    settle().await;
    send(&app, buy(SECRET)).await.assert_problem(429, "lock_waiters_per_key");
    waiter.await.unwrap().assert_problem(409, "lock_timeout");
    let gone = spawn(&app, buy(SECRET));
    settle().await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    probe.let_through(1);
    assert_eq!(first.await.unwrap().status, 200);

    let counts = counts(&recorder);
    let ours: BTreeMap<_, _> =
        counts.iter().filter(|(series, _)| series.starts_with("lock_http_")).collect();
    let expected = [
        (format!("{}{{code=lock_timeout}}", names::REFUSED_TOTAL), 1),
        (format!("{}{{code=lock_waiters_per_key}}", names::REFUSED_TOTAL), 1),
        (format!("{}{{outcome=cancelled}}", names::WAIT_SECONDS), 1),
        (format!("{}{{outcome=granted}}", names::WAIT_SECONDS), 1),
        (format!("{}{{outcome=refused}}", names::WAIT_SECONDS), 1),
    ];
    assert_eq!(ours, expected.iter().map(|(series, count)| (series, count)).collect());
    let by_locks = |series: &str| counts.keys().any(|seen| seen.starts_with(series));
    assert!(by_locks("lock_wait_seconds{outcome=granted}"));
    assert!(!by_locks("lock_wait_seconds{outcome=overloaded}"), "it never began to wait");
    assert!(!by_locks("lock_refused_total"), "the layer has counted it");
    let known = |series: &str| {
        let name = series.split('{').next();
        OF_LOCKS.iter().chain(METRICS).any(|Metric { name: of, .. }| Some(*of) == name)
    };
    for series in counts.keys() {
        assert!(known(series) && !series.contains(SECRET), "{series}");
    }
}
