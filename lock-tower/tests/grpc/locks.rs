//! Refusals of the lock layer.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use lock_core::LockClient;
use lock_core::scope::HandlerRan;
use lock_tower::LockLayer;
use lock_tower::answer::{Cause, Refusal, Reject};
use lock_tower::key::{fixed, key_fn};
use tonic::Code;
use tower::ServiceExt;

use crate::common::broken::{Broken, out_of_reach, password_refused, unreplicated};
use crate::common::{Probe, ms, send, settle};
use crate::fixture::{Client, METHOD, assert_come_back, assert_final, assert_refused, shop};

fn locked(layer: LockLayer, probe: &Probe) -> Router {
    shop(probe).layer(layer.key(fixed("job")))
}

async fn client(layer: LockLayer, probe: &Probe) -> Client {
    Client::of(locked(layer, probe)).await
}

fn impatient(locks: &LockClient) -> LockLayer {
    LockLayer::new(locks.clone()).wait(ms(10)).retries(0)
}

#[tokio::test(start_paused = true)]
async fn a_call_under_its_lock_is_answered_by_its_method() {
    let client = client(LockLayer::new(LockClient::memory()), &Probe::open()).await;
    assert_eq!(client.buy(&[]).await.unwrap(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_aborted_with_a_time_to_come_back() {
    let locks = LockClient::memory();
    let _held = locks.lock("job").await.unwrap();
    let client = client(impatient(&locks), &Probe::open()).await;
    let answer = client.buy(&[]).await;
    assert_come_back(&answer, Code::Aborted, "lock_timeout");
    let expected = "others held the lock for as long as this request may wait";
    assert_eq!(answer.unwrap_err().message(), expected);
}

#[tokio::test(start_paused = true)]
async fn shed_load_is_an_exhausted_resource_with_a_time_to_come_back() {
    let locks = LockClient::builder("memory:").waiters_per_key_max(1).connect().await.unwrap();
    let _held = locks.lock("job").await.unwrap();
    let layer = || LockLayer::new(locks.clone());
    for (layer, reason) in [
        (layer(), "lock_overloaded"),
        (layer().waiters_per_key(1), "lock_waiters_per_key"),
        (layer().waiters(1), "lock_waiters"),
    ] {
        let client = client(layer, &Probe::open()).await;
        let first = client.clone();
        let waits = tokio::spawn(async move { first.buy(&[]).await });
        settle().await;
        assert_come_back(&client.buy(&[]).await, Code::ResourceExhausted, reason);
        waits.abort();
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_is_unavailable() {
    for (fault, reason) in
        [(out_of_reach as fn() -> _, "lock_unavailable"), (unreplicated, "lock_not_replicated")]
    {
        let locks = LockClient::with_backend(Broken(fault));
        let client = client(impatient(&locks), &Probe::open()).await;
        assert_come_back(&client.buy(&[]).await, Code::Unavailable, reason);
    }
    let locks = LockClient::with_backend(Broken(password_refused));
    let down = client(impatient(&locks), &Probe::open()).await;
    assert_final(&down.buy(&[]).await, Code::Unavailable, "lock_unavailable");

    let locks = LockClient::memory();
    let _ = locks.shutdown(Duration::ZERO).await;
    let closed = client(impatient(&locks), &Probe::open()).await;
    assert_come_back(&closed.buy(&[]).await, Code::Unavailable, "lock_closed");
}

#[tokio::test(start_paused = true)]
async fn a_method_whose_lock_was_lost_is_aborted_and_not_to_be_called_again() {
    for detach in [false, true] {
        let layer = impatient(&LockClient::memory()).hold_limit(ms(50));
        let layer = if detach { layer.detach_on_disconnect() } else { layer };
        let client = client(layer, &Probe::new()).await;
        assert_final(&client.buy(&[]).await, Code::Aborted, "lock_lost");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_key_is_an_invalid_argument_or_what_its_extractor_says() {
    let long = "4".repeat(600);
    let by_header = key_fn(|head: &http::request::Parts| {
        lock_core::Key::from_segments([head.headers["x-order"].to_str().unwrap()])
    });
    let app = shop(&Probe::open()).layer(impatient(&LockClient::memory()).key(by_header));
    let answer = Client::of(app).await.buy(&[("x-order", &long)]).await;
    assert_final(&answer, Code::InvalidArgument, "lock_key_rejected");
    for (status, code) in [
        (StatusCode::UNAUTHORIZED, Code::Unauthenticated),
        (StatusCode::FORBIDDEN, Code::PermissionDenied),
        (StatusCode::NOT_FOUND, Code::NotFound),
    ] {
        let detail = "100 % of Ωs\nand more";
        let none = key_fn(move |_: &http::request::Parts| {
            Reject::new(status).with_code("shop_no_order").with_detail(detail)
        });
        let app = shop(&Probe::open()).layer(impatient(&LockClient::memory()).key(none));
        let answer = Client::of(app).await.buy(&[]).await;
        assert_final(&answer, code, "shop_no_order");
        assert_eq!(answer.unwrap_err().message(), detail);
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_is_set_up_wrongly_is_an_internal_error() {
    let layer = impatient(&LockClient::memory()).lease(Duration::ZERO);
    let client = client(layer, &Probe::open()).await;
    assert_final(&client.buy(&[]).await, Code::Internal, "lock_misconfigured");
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_given_to_a_cause_is_for_http_alone() {
    let locks = LockClient::memory();
    let _held = locks.lock("job").await.unwrap();
    let layer = impatient(&locks).status(Cause::Timeout, StatusCode::SERVICE_UNAVAILABLE);
    let app = locked(layer, &Probe::open());
    let plain = Request::post(METHOD).body(Body::empty()).unwrap();
    send(&app, plain).await.assert_problem(503, "lock_timeout");
    assert_come_back(&Client::of(app).await.buy(&[]).await, Code::Aborted, "lock_timeout");
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_application_goes_before_that_of_the_layer() {
    fn own(refusal: &Refusal<'_>) -> Response<Empty<Bytes>> {
        assert!(refusal.is_grpc());
        let answer = Response::builder().header("content-type", "application/grpc");
        answer.header("grpc-status", "8").header("grpc-message", "sold").body(Empty::new()).unwrap()
    }
    let locks = LockClient::memory();
    let _held = locks.lock("job").await.unwrap();
    let client = client(impatient(&locks).on_busy(own), &Probe::open()).await;
    let status = client.buy(&[]).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "sold"));
    let relayed = impatient(&locks).on_busy(|refusal: &Refusal<'_>| refusal.default_response());
    let client = Client::of(locked(relayed, &Probe::open())).await;
    assert_refused(&client.buy(&[]).await, Code::Aborted, "lock_timeout");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_to_grpc_is_trailers_alone_and_says_how_far_the_method_got() {
    let locks = LockClient::memory();
    let app = locked(impatient(&locks).hold_limit(ms(50)), &Probe::new());
    let call = || {
        let request = Request::post(METHOD).header("content-type", "application/grpc-web+proto");
        // One message without a byte.
        app.clone().oneshot(request.body(Body::from(&[0_u8; 5][..])).unwrap())
    };
    let held = locks.lock("job").await.unwrap();
    let busy = call().await.unwrap();
    assert_eq!(busy.extensions().get(), Some(&HandlerRan::No));
    drop(held);
    let lost = call().await.unwrap();
    assert_eq!(lost.extensions().get(), Some(&HandlerRan::InPart));
    for answer in [busy, lost] {
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["content-type"], "application/grpc-web+proto");
        assert_eq!(answer.headers()["grpc-status"], "10");
        assert!(!answer.headers().contains_key("retry-after"));
        assert!(axum::body::to_bytes(answer.into_body(), 1).await.unwrap().is_empty());
    }
}
