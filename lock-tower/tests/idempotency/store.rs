//! Rules 12, 15 and 16: the store out of reach, a record that cannot be written, and one that
//! cannot be read.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use bytes::Bytes;
use http::Request;
use lock_core::backend::FaultKind;
use lock_core::idempotency::{Begun, FingerprintBuilder, Scope};
use lock_core::{LockClient, LockHandle};
use lock_tower::idempotency::{OnStoreDown, Refusal};
use lock_tower::key::fixed;
use lock_tower::{FencingToken, LockLayer};

use crate::common::{Probe, ms, now, send, settle, spawn};
use crate::fixture::{Runs, engine, gated, once, order};

#[tokio::test(start_paused = true)]
async fn rule_12_while_the_store_is_out_of_reach_nothing_runs() {
    let (engine, records) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine), |_| "ran");
    // A refusal is there until somebody has mended it.
    for (kind, passes) in [(FaultKind::Transient, true), (FaultKind::Refused, false)] {
        records.fail(kind);
        let answer = send(&app, order("k")).await;
        answer.assert_problem(503, "idempotency_unavailable");
        assert_eq!(
            answer.retry_after().map(|after| (1..=2).contains(&after)),
            passes.then_some(true)
        );
        assert!(!answer.text.contains("secret"), "{}", answer.text);
    }
    assert_eq!(runs.count(), 0);
    records.heal();
    assert_eq!(send(&app, order("k")).await.text, "ran");
}

#[tokio::test(start_paused = true)]
async fn rule_12_a_service_may_choose_to_run_without_protection() {
    let (engine, records) = engine();
    let handler =
        async |token: Option<FencingToken>, body: String| format!("{body}: {}", token.is_some());
    let layer = once(&engine).on_store_down(OnStoreDown::FailOpen);
    let app = Router::new().route("/orders", post(handler)).layer(layer);
    records.fail(FaultKind::Transient);
    for _ in 0..2 {
        let answer = send(&app, order("k")).await;
        assert_eq!(answer.text, "one of them: false", "no token of no lock");
        assert!(!answer.headers.contains_key("idempotent-replayed"));
    }
    records.heal();
    assert_eq!(send(&app, order("k")).await.text, "one of them: true");
    // A value of somebody else is no outage.
    records.fail(FaultKind::ForeignValue);
    send(&app, order("k")).await.assert_problem(500, "idempotency_record_unreadable");
}

#[tokio::test(start_paused = true)]
async fn a_handler_without_protection_has_no_token_of_another_lock() {
    let (engine, records) = engine();
    let around = LockLayer::new(LockClient::memory()).key(fixed("outside"));
    let handler = async |request: Request<Body>| {
        let extensions = request.extensions();
        let token = extensions.get::<lock_core::FencingToken>().is_some();
        format!("{token} {}", extensions.get::<LockHandle>().is_some())
    };
    let layer = once(&engine).on_store_down(OnStoreDown::FailOpen);
    let app = Router::new().route("/orders", post(handler)).layer(layer).layer(around);
    records.fail(FaultKind::Transient);
    assert_eq!(send(&app, order("k")).await.text, "false false");
    records.heal();
    assert_eq!(send(&app, order("k")).await.text, "true true");
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_is_answered_with_503_even_where_it_could_fail_open() {
    let (engine, _) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine).on_store_down(OnStoreDown::FailOpen), |_| "ran");
    let _ = engine.locks().shutdown(Duration::ZERO).await;
    let answer = send(&app, order("k")).await;
    answer.assert_problem(503, "idempotency_closed");
    assert!(answer.retry_after().is_some());
    assert_eq!(runs.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn rule_15_a_result_that_cannot_be_written_is_answered_and_its_record_stays() {
    let (engine, records) = engine();
    let probe = Probe::new();
    let app = gated(once(&engine), &probe);
    let first = spawn(&app, order("k"));
    settle().await;
    records.fail(FaultKind::Transient);
    let released = now();
    probe.let_through(1);
    assert_eq!(first.await.unwrap().text, "done");
    let took = released.elapsed();
    assert!(took >= ms(1_900) && took <= ms(2_100), "tried for about 2 s: {took:?}");
    assert_eq!(records.len(), 1, "the record is never deleted");
    // The write goes on behind its back, and is there for the retry.
    records.heal();
    assert_eq!(send(&app, order("k")).await.headers["idempotent-replayed"], "true");
    assert_eq!((probe.entered(), engine.stats().completed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn rule_16_a_record_lives_for_its_time_and_then_the_key_is_new() {
    let (engine, records) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine), |run| format!("run {run}"));
    send(&app, order("k")).await;
    tokio::time::advance(Duration::from_secs(24 * 60 * 60 - 1)).await;
    assert_eq!(send(&app, order("k")).await.text, "run 1");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(records.len(), 0);
    assert_eq!(send(&app, order("k")).await.text, "run 2");
}

/// Completes the request of [`order`] with this record, behind the layer's back.
async fn complete_with(engine: &lock_core::idempotency::Idempotency, record: Vec<u8>) {
    // As in `fingerprint.rs`: whoever changes it must change this too.
    let fingerprint = [&b"http/1"[..], b"POST", b"/orders", b"", b"content-type"];
    let fields = fingerprint.into_iter().fold(FingerprintBuilder::new(), FingerprintBuilder::field);
    let fields =
        fields.field(0_u64.to_be_bytes()).field(b"content-encoding").field(0_u64.to_be_bytes());
    let fingerprint = fields.field(b"one of them").finish();
    match engine.begin(&Scope::Global, b"k", fingerprint).await.unwrap() {
        Begun::Run(execution) => execution.complete(Bytes::from(record)).await.unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn rule_16_a_record_of_another_version_or_a_damaged_one_is_never_replayed() {
    let good = b"\x01\x00\xc8\x00\x00\x00\x00\x00\x00\x00\x04done";
    let cases = [
        good.to_vec(),
        good[..good.len() - 1].to_vec(),
        [b"\x02", &good[1..]].concat(),
        [&good[..], b"!"].concat(),
        b"a string of somebody else".to_vec(),
        Vec::new(),
    ];
    for (case, record) in cases.into_iter().enumerate() {
        let (engine, _) = engine();
        let runs = Runs::default();
        let layer = once(&engine).on_refused(|refusal: &Refusal<'_>| refusal.default_response());
        let app = runs.shop(layer, |_| "ran");
        complete_with(&engine, record).await;
        let answer = send(&app, order("k")).await;
        match case {
            0 => assert_eq!(answer.text, "done"),
            _ => answer.assert_problem(500, "idempotency_record_unreadable"),
        }
        assert_eq!(runs.count(), 0, "it has run before");
    }
}

#[tokio::test(start_paused = true)]
async fn rule_16_a_foreign_value_is_neither_replayed_nor_run_over() {
    let (engine, records) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine), |_| "ran");
    records.fail(FaultKind::ForeignValue);
    let answer = send(&app, order("k")).await;
    answer.assert_problem(500, "idempotency_record_unreadable");
    assert_eq!((answer.retry_after(), runs.count()), (None, 0));
}
