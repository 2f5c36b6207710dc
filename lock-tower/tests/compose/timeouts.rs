//! Timeouts, and what each does to those who wait, to a handler and to a body, in each place.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::post;
use futures_util::{StreamExt as _, stream};
use http::{Request, StatusCode};
use lock_tower::HoldUntil;
use lock_tower::key::json_pointer;
use tower::ServiceExt as _;
use tower_http::timeout::{RequestBodyTimeoutLayer, ResponseBodyTimeoutLayer, TimeoutLayer};

use crate::common::{Probe, now, send, settle, spawn, within};
use crate::stage::{Stage, order, outside, places};

const LIMIT: Duration = Duration::from_millis(100);

fn limit() -> TimeoutLayer {
    TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, LIMIT)
}

fn gated(probe: &Probe) -> Router {
    let probe = probe.clone();
    Router::new().route("/buy/{sku}", post(move || probe.clone().visit()))
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_cut_by_a_timeout_gives_its_lock_up_in_each_place() {
    let stage = Stage::new();
    let probe = Probe::new();
    for (place, app) in places!(gated(&probe), stage.lock(), limit()) {
        let begun = now();
        let answer = send(&app, order("k")).await;
        assert_eq!((answer.status.as_u16(), &*answer.text), (504, ""), "{place}");
        assert!(begun.elapsed() < LIMIT * 2, "{place}");
        assert_eq!((probe.inside(), probe.finished()), (0, 0), "{place}");
        stage.is_free(place).await;
    }
    assert_eq!(probe.entered(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_counts_the_wait_for_the_lock_outside_and_the_handler_alone_inside() {
    for place in 0..6 {
        let stage = Stage::new();
        let held = stage.locks.lock("buy:lamp").await.unwrap();
        let probe = Probe::open();
        let (place, app) = places!(gated(&probe), stage.lock(), limit()).swap_remove(place);
        let waits = spawn(&app, order("k"));
        settle().await;
        assert_eq!(stage.locks.stats().waiters, 1, "{place}");
        tokio::time::sleep(LIMIT * 2).await;
        let outside = place.starts_with("outside");
        assert_eq!(stage.locks.stats().waiters, usize::from(!outside), "{place}");
        held.release().await.unwrap();
        let answer = within(waits).await.unwrap();
        let expected = if outside { (504, "") } else { (200, "done") };
        assert_eq!((answer.status.as_u16(), &*answer.text), expected, "{place}");
        assert_eq!(probe.entered(), usize::from(!outside), "{place}");
        stage.is_free(place).await;
    }
}

#[tokio::test(start_paused = true)]
async fn outside_of_idempotency_a_timeout_ends_the_wait_of_the_client_and_not_the_handler() {
    for place in [0, 2, 4] {
        let stage = Stage::new();
        let probe = Probe::new();
        let (place, app) = places!(gated(&probe), stage.once(), limit()).swap_remove(place);
        assert!(place.starts_with("outside"));
        assert_eq!(send(&app, order("k")).await.status, 504, "{place}");
        assert_eq!((probe.inside(), stage.locks.stats().held), (1, 1), "{place}");
        probe.let_through(1);
        let answer = send(&app, order("k")).await;
        assert_eq!((answer.status.as_u16(), &*answer.text), (200, "done"), "{place}");
        assert_eq!(probe.entered(), 1, "{place}");
        stage.is_free(place).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_detached_handler_keeps_its_lock_when_a_timeout_outside_answers_for_it() {
    let stage = Stage::new();
    let probe = Probe::new();
    let lock = stage.lock().detach_on_disconnect();
    let app = gated(&probe).layer(outside!(limit(), lock));
    assert_eq!(send(&app, order("k")).await.status, 504);
    assert_eq!((probe.inside(), stage.locks.stats().held), (1, 1));
    probe.let_through(1);
    stage.is_free("detached").await;
    assert_eq!(probe.finished(), 1);
}

/// Something, and then nothing for ever.
fn stuck() -> Body {
    let first = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{\"sku\":"))]);
    Body::from_stream(first.chain(stream::pending()))
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_stuck_gives_its_lock_up_when_its_body_times_out() {
    let stage = Stage::new();
    let shop = || Router::new().route("/buy/{sku}", post(async || stuck()));
    let lock = || stage.lock().hold_until(HoldUntil::ResponseBody);
    let limit = || ResponseBodyTimeoutLayer::new(LIMIT);
    for (place, app) in places!(shop(), lock(), limit()) {
        let answer = app.oneshot(order("k")).await.unwrap();
        assert_eq!(answer.status(), 200, "{place}");
        let mut body = answer.into_body().into_data_stream();
        assert!(within(body.next()).await.unwrap().is_ok(), "{place}");
        assert_eq!(stage.locks.stats().held, 1, "{place}");
        assert!(within(body.next()).await.unwrap().is_err(), "{place}");
        // As a server does with a body that failed.
        drop(body);
        stage.is_free(place).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_body_times_out_is_refused_without_a_lock_by_whoever_reads_it() {
    let request = || {
        let request = Request::post("/buy/lamp").header("idempotency-key", "k");
        request.body(stuck()).unwrap()
    };
    let limit = || RequestBodyTimeoutLayer::new(LIMIT);
    let stage = Stage::new();
    let by_body = || stage.lock().key(json_pointer("buy:{/sku}"));
    let app = stage.shop().layer(outside!(limit(), by_body()));
    send(&app, request()).await.assert_problem(400, "lock_body_incomplete");
    let app = stage.shop().layer(outside!(limit(), stage.once()));
    send(&app, request()).await.assert_problem(400, "idempotency_body_incomplete");
    assert_eq!(stage.runs(), 0);
    for (place, app) in places!(stage.shop(), stage.lock(), limit()) {
        assert_eq!(send(&app, request()).await.status, 400, "{place}");
        stage.is_free(place).await;
    }
    assert_eq!((stage.runs(), stage.locks.stats().acquired), (0, 6), "the handler's extractor");
}
