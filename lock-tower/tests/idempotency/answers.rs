//! The layer's own answers, and the application's instead of them.

use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use http::{Response, StatusCode};
use lock_core::LockClient;
use lock_core::backend::FaultKind;
use lock_core::idempotency::{Duplicates, Idempotency, MemoryRecords};
use lock_tower::idempotency::{Cause, Refusal};

use crate::common::{Probe, ms, send, settle, spawn};
use crate::fixture::{Runs, engine, gated, once, order, request};

#[tokio::test(start_paused = true)]
async fn on_refused_is_given_all_facts_and_its_answer_is_sent() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let layer = once(&engine).duplicates(Duplicates::Reject).on_refused(|refusal| {
        assert_eq!(refusal.cause(), Cause::InFlight);
        assert_eq!(refusal.status(), StatusCode::CONFLICT);
        assert_eq!(refusal.code(), "idempotency_in_flight");
        assert!(refusal.detail().contains("being worked on"));
        assert_eq!(refusal.age().map(|age| age.as_secs()), Some(5));
        assert!(refusal.retry_after() >= Some(Duration::from_secs(5)), "{refusal:?}");
        assert_eq!(refusal.request().unwrap().uri.path(), "/orders");
        assert!(refusal.error().is_none());
        let mut response = refusal.default_response().into_response();
        *response.status_mut() = StatusCode::TOO_EARLY;
        response
    });
    let app = gated(layer, &probe);
    let _first = spawn(&app, order("k"));
    tokio::time::sleep(ms(5_100)).await;
    let answer = send(&app, order("k")).await;
    assert_eq!((answer.status, &*answer.code()), (StatusCode::TOO_EARLY, "idempotency_in_flight"));
}

#[tokio::test(start_paused = true)]
async fn on_refused_gets_the_error_behind_an_outage() {
    let (engine, records) = engine();
    let layer = once(&engine).on_refused(|refusal: &Refusal<'_>| {
        let error = refusal.error().expect("an error of lock-core").to_string();
        assert!(error.contains("a secret of the store"), "{error}");
        refusal.default_response()
    });
    records.fail(FaultKind::Refused);
    let app = Runs::default().shop(layer, |_| "ran");
    let answer = send(&app, order("k")).await;
    answer.assert_problem(503, "idempotency_unavailable");
    assert_eq!(answer.retry_after(), None, "a refusal does not pass by itself");
}

#[tokio::test(start_paused = true)]
async fn each_cause_can_be_given_another_status() {
    let (engine, _) = engine();
    let layer = once(&engine).status(Cause::Key, StatusCode::UNPROCESSABLE_ENTITY);
    let app = Runs::default().shop(layer, |_| "ran");
    send(&app, order("")).await.assert_problem(422, "idempotency_key_empty");
}

#[test]
#[should_panic(expected = "the status of Waiters is 304 Not Modified")]
fn a_status_that_is_no_error_is_refused_at_once() {
    let _ = once(&engine().0).status(Cause::Waiters, StatusCode::NOT_MODIFIED);
}

#[tokio::test(start_paused = true)]
async fn a_loss_and_a_panic_are_told_without_the_request() {
    let (engine, _) = engine();
    let layer = once(&engine).on_refused(|refusal: &Refusal<'_>| {
        assert!(refusal.request().is_none());
        refusal.default_response()
    });
    let app = Runs::default().shop(layer, |_| -> &'static str { panic!("the handler's own") });
    send(&app, order("k")).await.assert_problem(500, "idempotency_handler_panicked");
}

#[tokio::test(start_paused = true)]
async fn an_option_out_of_its_bounds_is_answered_with_500() {
    let (engine, _) = engine();
    let day = Duration::from_secs(100_000);
    for engine in [
        engine.clone().with_secret("short"),
        engine.clone().with_record_ttl(Duration::ZERO),
        engine.clone().with_duplicates(Duplicates::Wait(day)),
        engine.clone().with_lease(Duration::ZERO),
    ] {
        let runs = Runs::default();
        let answer = send(&runs.shop(once(&engine), |_| "ran"), order("k")).await;
        answer.assert_problem(500, "idempotency_misconfigured");
        assert_eq!((answer.retry_after(), runs.count()), (None, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_line_of_the_client_is_answered_with_429() {
    let locks = LockClient::builder("memory:").waiters_per_key_max(1).connect().await.unwrap();
    let engine = Idempotency::new("tests", locks.clone(), MemoryRecords::new());
    let app = Runs::default().shop(once(&engine), |_| "ran");
    // Somebody else stands in the line of the key, which no other request of this layer does.
    let scope = lock_core::idempotency::Scope::Global;
    let key = format!("idem:{}", engine.record_id(&scope, b"k"));
    let _held = locks.lock(key.as_str()).await.unwrap();
    let waits = locks.lock(key.as_str()).acquire();
    let waiting = tokio::spawn(waits);
    settle().await;
    let answer = send(&app, order("k")).await;
    answer.assert_problem(429, "idempotency_overloaded");
    assert!(answer.retry_after().is_some());
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_printed_says_nothing_of_what_the_client_sent() {
    let (engine, _) = engine();
    let layer = once(&engine).on_refused(|refusal: &Refusal<'_>| {
        assert!(refusal.request().is_some());
        Response::new(format!("{refusal:?}"))
    });
    let app = Runs::default().shop(layer, |_| "ran");
    let request = request("the-key,").header("authorization", "the-token").uri("/orders?the-query");
    let printed = send(&app, request.body(Body::empty()).unwrap()).await.text;
    assert!(printed.contains("idempotency_key_repeated"), "{printed}");
    for secret in ["the-key", "the-token", "the-query"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}
