//! The layer's answers, as those see them who watch a service.

use lock_core::idempotency::Duplicates;
use lock_tower::metrics::names;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::common::{Probe, send, settle, spawn};
use crate::fixture::{engine, gated, once, order};

#[tokio::test(start_paused = true)]
async fn answers_are_counted_by_code_without_the_key() {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let (engine, _) = engine();
    let probe = Probe::new();
    let app = gated(once(&engine).duplicates(Duplicates::Reject), &probe);
    let first = spawn(&app, order("the-secret-key"));
    settle().await;
    for _ in 0..2 {
        let answer = send(&app, order("the-secret-key")).await;
        answer.assert_problem(409, "idempotency_in_flight");
    }
    probe.let_through(1);
    assert_eq!(first.await.unwrap().text, "done");

    let mut counted = Vec::new();
    for (key, _, _, value) in recorder.snapshotter().snapshot().into_vec() {
        assert!(!format!("{key:?}").contains("the-secret-key"), "{key:?}");
        if key.key().name() == names::REFUSED_TOTAL {
            let codes: Vec<_> = key.key().labels().map(|label| label.value().to_owned()).collect();
            counted.push((codes, value));
        }
    }
    let expected = (vec!["idempotency_in_flight".to_owned()], DebugValue::Counter(2));
    assert_eq!(counted, [expected]);
}
