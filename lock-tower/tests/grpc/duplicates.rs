//! Refusals of the idempotency layer.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::stream;
use http::{Request, StatusCode};
use lock_core::idempotency::{Duplicates, Idempotency, MemoryRecords, OnUnknown, Scope};
use lock_core::{LockClient, LockOptions};
use lock_tower::IdempotencyLayer;
use lock_tower::idempotency::HasScope;
use tonic::Code;

use crate::common::broken::{Broken, out_of_reach, password_refused};
use crate::common::{Probe, ms, send, settle};
use crate::fixture::{
    Client, METHOD, assert_come_back, assert_final, assert_refused, failing, shop,
};

const KEY: (&str, &str) = ("idempotency-key", "k");

fn engine() -> Idempotency {
    Idempotency::new("tests", LockClient::memory(), MemoryRecords::new())
}

fn once(engine: Idempotency) -> IdempotencyLayer<HasScope> {
    IdempotencyLayer::new(engine).global_scope()
}

fn guarded(layer: IdempotencyLayer<HasScope>, probe: &Probe) -> Router {
    shop(probe).layer(layer)
}

async fn client(layer: IdempotencyLayer<HasScope>, probe: &Probe) -> Client {
    Client::of(guarded(layer, probe)).await
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_good_key_is_an_invalid_argument() {
    let client = client(once(engine()), &Probe::open()).await;
    assert_final(&client.buy(&[]).await, Code::InvalidArgument, "idempotency_key_missing");
    let empty = client.buy(&[("idempotency-key", "")]).await;
    assert_final(&empty, Code::InvalidArgument, "idempotency_key_empty");
    assert_eq!(client.buy(&[KEY]).await.unwrap(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_a_scope_is_told_as_grpc_has_it() {
    for (status, code) in [
        (StatusCode::UNAUTHORIZED, Code::Unauthenticated),
        (StatusCode::FORBIDDEN, Code::PermissionDenied),
        (StatusCode::NOT_FOUND, Code::NotFound),
    ] {
        let layer = IdempotencyLayer::new(engine());
        let layer = layer.scope(move |_: &http::request::Parts| Err::<Scope, _>(status));
        let client = client(layer, &Probe::open()).await;
        assert_final(&client.buy(&[KEY]).await, code, "idempotency_scope_rejected");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_too_large_or_too_slow_is_told_as_grpc_has_it() {
    let layer = once(engine()).request_bytes_max(3).request_wait(ms(50));
    let client = client(layer, &Probe::open()).await;
    let large = client.buy(&[KEY]).await;
    assert_final(&large, Code::InvalidArgument, "idempotency_body_too_large");
    let slow = client.stream(stream::pending(), &[KEY]).await;
    assert_final(&slow, Code::DeadlineExceeded, "idempotency_body_timeout");
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_of_a_call_that_runs_is_aborted_and_one_too_many_is_shed() {
    let probe = Probe::new();
    let layer = once(engine()).duplicates(Duplicates::Reject);
    let running = client(layer, &probe).await;
    let first = running.clone();
    let first = tokio::spawn(async move { first.buy(&[KEY]).await });
    settle().await;
    let duplicate = running.buy(&[KEY]).await;
    assert_come_back(&duplicate, Code::Aborted, "idempotency_in_flight");
    first.abort();

    let full = client(once(engine()).first_requests(1), &Probe::new()).await;
    let reading = full.clone();
    let reading = tokio::spawn(async move { reading.stream(stream::pending(), &[KEY]).await });
    settle().await;
    let shed = full.buy(&[("idempotency-key", "other")]).await;
    assert_come_back(&shed, Code::ResourceExhausted, "idempotency_waiters");
    reading.abort();
}

#[tokio::test(start_paused = true)]
async fn a_full_line_is_shed() {
    let locks = LockClient::builder("memory:").waiters_per_key_max(1).connect().await.unwrap();
    let engine = Idempotency::new("tests", locks.clone(), MemoryRecords::new());
    let key = format!("idem:{}", engine.record_id(&Scope::Global, b"k"));
    let _held = locks.lock(key.as_str()).await.unwrap();
    let waits = tokio::spawn(locks.lock(key.as_str()).acquire());
    settle().await;
    let answer = client(once(engine), &Probe::open()).await.buy(&[KEY]).await;
    assert_come_back(&answer, Code::ResourceExhausted, "idempotency_overloaded");
    waits.abort();
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_call_and_an_outcome_that_is_not_known_are_failed_preconditions() {
    let layer = once(engine()).fingerprint_header("x-version").response_bytes_max(0);
    let ran = client(layer, &Probe::open()).await;
    assert_eq!(ran.buy(&[KEY]).await.unwrap(), "done");
    let other = ran.buy(&[KEY, ("x-version", "2")]).await;
    assert_final(&other, Code::FailedPrecondition, "idempotency_key_reused");
    let again = ran.buy(&[KEY]).await;
    assert_final(&again, Code::FailedPrecondition, "idempotency_response_not_stored");
}

#[tokio::test(start_paused = true)]
async fn a_method_that_lost_its_lock_is_aborted_and_then_unknown() {
    let engine = engine().with_lock_options(LockOptions::new().with_hold_limit(ms(50)));
    let layer = once(engine).on_unknown(OnUnknown::Refuse);
    let client = client(layer, &Probe::new()).await;
    assert_come_back(&client.buy(&[KEY]).await, Code::Aborted, "idempotency_lost");
    let unknown = client.buy(&[KEY]).await;
    assert_final(&unknown, Code::FailedPrecondition, "idempotency_outcome_unknown");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_is_unavailable() {
    let down = |fault| {
        let locks = LockClient::with_backend(Broken(fault));
        once(Idempotency::new("tests", locks, MemoryRecords::new()))
    };
    let answer = client(down(out_of_reach), &Probe::open()).await.buy(&[KEY]).await;
    assert_come_back(&answer, Code::Unavailable, "idempotency_unavailable");
    let answer = client(down(password_refused), &Probe::open()).await.buy(&[KEY]).await;
    assert_final(&answer, Code::Unavailable, "idempotency_unavailable");

    let locks = LockClient::memory();
    let _ = locks.shutdown(Duration::ZERO).await;
    let closed =
        client(once(Idempotency::new("tests", locks, MemoryRecords::new())), &Probe::open()).await;
    assert_refused(&closed.buy(&[KEY]).await, Code::Unavailable, "idempotency_closed");
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_is_set_up_wrongly_and_a_panic_are_internal_errors() {
    let short = once(engine().with_secret("short"));
    let wrong = client(short, &Probe::open()).await.buy(&[KEY]).await;
    assert_final(&wrong, Code::Internal, "idempotency_misconfigured");

    let handler = async || -> &'static str { panic!("the method's own") };
    let app = Router::new().route(METHOD, axum::routing::post(handler)).layer(once(engine()));
    let panicked = Client::of(app).await.buy(&[KEY]).await;
    assert_final(&panicked, Code::Internal, "idempotency_handler_panicked");
}

#[tokio::test(start_paused = true)]
async fn a_client_of_json_is_answered_with_json_beside_those_of_grpc() {
    let app = guarded(once(engine()), &Probe::open());
    let plain = Request::post(METHOD).body(Body::empty()).unwrap();
    send(&app, plain).await.assert_problem(400, "idempotency_key_missing");
    let answer = Client::of(app).await.buy(&[]).await;
    assert_final(&answer, Code::InvalidArgument, "idempotency_key_missing");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_repeated_has_the_status_and_the_message_of_the_first() {
    let probe = Probe::open();
    let client = client(once(engine()), &probe).await;
    assert_eq!(client.buy(&[KEY]).await.unwrap(), "done");
    assert_eq!(client.buy(&[KEY]).await.unwrap(), "done");
    assert_eq!(probe.entered(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_method_is_repeated_where_the_same_call_would_meet_it_again() {
    for (code, runs) in [(Code::Unavailable, 2), (Code::AlreadyExists, 1)] {
        let probe = Probe::open();
        let app = failing(&probe, code).layer(once(engine()));
        let client = Client::of(app).await;
        for _ in 0..2 {
            let status = client.buy(&[KEY]).await.unwrap_err();
            assert_eq!((status.code(), status.message()), (code, "the method's own"));
        }
        assert_eq!(probe.entered(), runs, "{code:?}");
    }
}
