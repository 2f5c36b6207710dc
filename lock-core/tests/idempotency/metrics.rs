//! The metrics of idempotency keys, as those see them who watch a service.

use std::collections::BTreeMap;

use bytes::Bytes;
use lock_core::backend::FaultKind;
use lock_core::idempotency::{Begun, Fingerprint, OnUnknown, Scope};
use lock_core::metrics::{METRICS, names};
use lock_core::test_util::records::RecordVerb;
use lock_core::test_util::{Act, Verb};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::{Stage, Test, begin, rejecting, replay, run};

#[tokio::test(start_paused = true)]
async fn every_outcome_of_a_request_and_every_stale_completion_is_counted() -> Test {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let stage = Stage::new();

    let late = run(&stage.once).await;
    assert!(matches!(begin(&rejecting(&stage.once)).await?, Begun::InFlight { .. }));
    stage.lock_script.always(Verb::Renew, Act::Err(FaultKind::Transient));
    late.lost().await;
    stage.lock_script.heal();
    let refusing = stage.other.clone().with_on_unknown(OnUnknown::Refuse);
    assert!(matches!(begin(&refusing).await?, Begun::Unknown { .. }));
    let next = run(&stage.other).await;
    assert!(late.complete(Bytes::new()).await.unwrap_err().is_stale());
    next.complete(Bytes::from_static(b"paid")).await?;
    assert_eq!(replay(&stage.once).await, "paid");
    let (scope, other) = (Scope::of("tenant"), Fingerprint::new([2; 32]));
    assert!(matches!(stage.once.begin(&scope, b"key", other).await?, Begun::Mismatch));
    let Begun::Run(large) = stage.once.begin(&scope, b"large", other).await? else {
        panic!("nobody has asked for it");
    };
    large.complete_without_payload().await?;
    assert!(matches!(stage.once.begin(&scope, b"large", other).await?, Begun::WithoutPayload));
    stage.script.always(RecordVerb::Peek, Act::Err(FaultKind::Refused));
    assert!(begin(&stage.once).await.is_err());

    let all = recorder.snapshotter().snapshot().into_vec().into_iter();
    let counts: BTreeMap<(String, String), u64> = all
        .filter_map(|(key, _, _, value)| {
            let DebugValue::Counter(count) = value else { return None };
            let labels = key.key().labels().map(|label| label.value().to_owned());
            Some(((key.key().name().to_owned(), labels.collect()), count))
        })
        .filter(|((name, _), _)| name.starts_with("idempotency_"))
        .collect();
    let requests = METRICS.iter().find(|metric| metric.name == names::IDEMPOTENCY_REQUESTS_TOTAL);
    let (_, outcomes) = requests.expect("it is documented").labels[0];
    let expected = outcomes.iter().map(|&outcome| {
        let count = if outcome == "executed" { 3 } else { 1 };
        ((names::IDEMPOTENCY_REQUESTS_TOTAL.to_owned(), outcome.to_owned()), count)
    });
    let stale = ((names::IDEMPOTENCY_STALE_TOTAL.to_owned(), String::new()), 1);
    assert_eq!(counts, expected.chain([stale]).collect());
    Ok(())
}
