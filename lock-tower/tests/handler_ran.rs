//! The word of the layers on how far a handler got, to whoever stands outside of them.

mod common;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use common::broken::{Broken, out_of_reach};
use common::{Probe, buy, ms, settle, shop, spawn, within};
use http::{Request, Response, StatusCode};
use lock_core::idempotency::{Duplicates, Idempotency, MemoryRecords, OnUnknown};
use lock_core::scope::HandlerRan;
use lock_core::{LockClient, LockOptions};
use lock_tower::idempotency::HasScope;
use lock_tower::{IdempotencyLayer, LockLayer};
use tower::ServiceExt;

async fn answered(app: &Router, request: Request<Body>) -> Response<Body> {
    within(app.clone().oneshot(request)).await.unwrap()
}

/// The code of the answer, and what it carries.
async fn told(app: &Router, request: Request<Body>) -> (String, Option<HandlerRan>) {
    let answer = answered(app, request).await;
    let ran = answer.extensions().get().copied();
    let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    (problem["code"].as_str().unwrap_or("none").to_owned(), ran)
}

fn code(code: &str, ran: impl Into<Option<HandlerRan>>) -> (String, Option<HandlerRan>) {
    (code.to_owned(), ran.into())
}

fn impatient(locks: &LockClient) -> LockLayer {
    LockLayer::new(locks.clone()).wait(ms(10)).retries(0)
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_place_of_a_handler_that_never_began_says_so() {
    let (locks, probe) = (LockClient::memory(), Probe::open());
    let app = shop(impatient(&locks), &probe);
    let held = locks.lock("buy:42").await.unwrap();
    assert_eq!(told(&app, buy("42")).await, code("lock_timeout", HandlerRan::No));
    let full = shop(impatient(&locks).waiters(1), &probe);
    let waits = spawn(&full, buy("42"));
    while locks.stats().waiters == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(told(&full, buy("43")).await, code("lock_waiters", HandlerRan::No));
    waits.abort();
    drop(held);
    let long = "4".repeat(600);
    assert_eq!(told(&app, buy(&long)).await, code("lock_key_rejected", HandlerRan::No));
    let down = shop(impatient(&LockClient::with_backend(Broken(out_of_reach))), &probe);
    assert_eq!(told(&down, buy("42")).await, code("lock_unavailable", HandlerRan::No));
    let _ = locks.shutdown(Duration::ZERO).await;
    assert_eq!(told(&app, buy("42")).await, code("lock_closed", HandlerRan::No));
    assert_eq!(probe.entered(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_place_of_a_handler_that_was_stopped_says_so() {
    for detach in [false, true] {
        let layer = impatient(&LockClient::memory()).hold_limit(ms(50));
        let layer = if detach { layer.detach_on_disconnect() } else { layer };
        let app = shop(layer, &Probe::new());
        assert_eq!(told(&app, buy("42")).await, code("lock_lost", HandlerRan::InPart));
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_of_the_handler_itself_says_nothing() {
    let app = shop(impatient(&LockClient::memory()), &Probe::open());
    assert_eq!(told(&app, buy("42")).await, code("none", None));
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_application_says_it_too_unless_it_says_something_else() {
    let locks = LockClient::memory();
    let own = |ran: Option<HandlerRan>| {
        let layer = impatient(&locks).hold_limit(ms(50)).on_busy(move |refusal| {
            let mut answer = refusal.default_response();
            *answer.status_mut() = StatusCode::LOCKED;
            ran.map(|ran| answer.extensions_mut().insert(ran));
            answer
        });
        shop(layer, &Probe::new())
    };
    assert_eq!(told(&own(None), buy("42")).await.1, Some(HandlerRan::InPart));
    let _held = locks.lock("buy:42").await.unwrap();
    assert_eq!(told(&own(None), buy("42")).await.1, Some(HandlerRan::No));
    let other = own(Some(HandlerRan::InPart));
    assert_eq!(told(&other, buy("42")).await.1, Some(HandlerRan::InPart));
}

#[test]
fn a_handler_whose_task_was_dropped_with_its_runtime_was_stopped_in_part() {
    let detached = |locks: &LockClient, probe: &Probe| {
        let layer = LockLayer::new(locks.clone()).detach_on_disconnect();
        (shop(layer, probe), buy("42"))
    };
    let finishing = |locks: &LockClient, probe: &Probe| {
        let probe = probe.clone();
        let handler = post(move || probe.clone().visit());
        let engine = Idempotency::new("tests", locks.clone(), MemoryRecords::new());
        (Router::new().route("/orders", handler).layer(once(engine)), order("k"))
    };
    for (app, expected) in
        [(&detached as &dyn Fn(&_, &_) -> _, "lock_closed"), (&finishing, "idempotency_closed")]
    {
        let probe = Probe::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let locks = LockClient::memory();
        let (app, request) = app(&locks, &probe);
        let mut asking: Pin<Box<dyn Future<Output = _>>> =
            Box::pin(async move { told(&app, request).await });
        runtime.block_on(async {
            while probe.inside() == 0 {
                assert!(futures_util::poll!(&mut asking).is_pending());
                tokio::task::yield_now().await;
            }
        });
        drop(runtime);
        // The answer itself needs no runtime: only the time limit of the test does.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _in_runtime = runtime.enter();
        let answer = asking.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(answer, Poll::Ready(code(expected, HandlerRan::InPart)));
    }
}

fn once(engine: Idempotency) -> IdempotencyLayer<HasScope> {
    IdempotencyLayer::new(engine).global_scope()
}

fn order(key: &str) -> Request<Body> {
    let request = Request::post("/orders").header("idempotency-key", key);
    request.body(Body::from("one of them")).unwrap()
}

fn orders(layer: IdempotencyLayer<HasScope>, probe: &Probe) -> Router {
    let probe = probe.clone();
    Router::new().route("/orders", post(move || probe.clone().visit())).layer(layer)
}

#[tokio::test(start_paused = true)]
async fn the_idempotency_layer_tells_a_refusal_from_a_handler_that_was_stopped() {
    let engine = || Idempotency::new("tests", LockClient::memory(), MemoryRecords::new());
    let probe = Probe::new();
    let app = orders(once(engine()).duplicates(Duplicates::Reject), &probe);
    assert_eq!(told(&app, order("")).await, code("idempotency_key_empty", HandlerRan::No));
    let first = spawn(&app, order("k"));
    settle().await;
    assert_eq!(told(&app, order("k")).await, code("idempotency_in_flight", HandlerRan::No));
    probe.let_through(1);
    assert_eq!(first.await.unwrap().text, "done");
    let other = Request::post("/orders?b").header("idempotency-key", "k").body(Body::empty());
    let reused = told(&app, other.unwrap()).await;
    assert_eq!(reused, code("idempotency_key_reused", HandlerRan::No));
    assert_eq!(told(&app, order("k")).await, code("none", None), "a replay is the handler's own");

    let limited = engine().with_lock_options(LockOptions::new().with_hold_limit(ms(50)));
    let app = orders(once(limited).on_unknown(OnUnknown::Refuse), &Probe::new());
    assert_eq!(told(&app, order("k")).await, code("idempotency_lost", HandlerRan::InPart));
    assert_eq!(told(&app, order("k")).await, code("idempotency_outcome_unknown", HandlerRan::No));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panicked_got_as_far_as_that() {
    let engine = Idempotency::new("tests", LockClient::memory(), MemoryRecords::new());
    let handler = async || -> &'static str { panic!("the handler's own") };
    let app = Router::new().route("/orders", post(handler)).layer(once(engine));
    assert_eq!(
        told(&app, order("k")).await,
        code("idempotency_handler_panicked", Some(HandlerRan::InPart))
    );
}
