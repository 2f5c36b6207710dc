//! Limits around the layer, and what they do to a handler, as the documentation tells.

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::{Method, Request};
use lock_core::idempotency::OnUnknown;
use lock_core::{LockClient, LockOptions};
use lock_tower::idempotency::OnDisconnect;
use lock_tower::key::fixed;
use lock_tower::{FencingToken, LockLayer, OnLost};
use tower::limit::GlobalConcurrencyLimitLayer;

use crate::common::{Probe, ms, send, settle, spawn};
use crate::fixture::{engine, gated, once, order};

#[tokio::test(start_paused = true)]
async fn a_handler_whose_client_is_gone_is_bounded_by_a_hold_limit_and_no_outer_limit() {
    let (engine, _) = engine();
    let engine = engine.with_lock_options(LockOptions::new().with_hold_limit(ms(100)));
    let probe = Probe::new();
    let app = gated(once(&engine), &probe).layer(GlobalConcurrencyLimitLayer::new(1));
    for (key, inside) in [("a", 1), ("b", 2)] {
        let gone = spawn(&app, order(key));
        settle().await;
        gone.abort();
        settle().await;
        assert_eq!(probe.inside(), inside);
    }
    tokio::time::sleep(ms(200)).await;
    assert_eq!((probe.inside(), probe.finished()), (0, 0), "both were stopped");
    assert_eq!(engine.locks().stats().held, 0);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_dropped_with_its_client_is_unknown_under_refuse() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let layer = once(&engine).on_disconnect(OnDisconnect::Abort).on_unknown(OnUnknown::Refuse);
    let app = gated(layer, &probe);
    let gone = spawn(&app, order("k"));
    settle().await;
    gone.abort();
    settle().await;
    send(&app, order("k")).await.assert_problem(409, "idempotency_outcome_unknown");
    assert_eq!((probe.entered(), probe.inside()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_not_stored_is_sent_even_by_a_handler_that_was_overtaken() {
    let (engine, _) = engine();
    let engine = engine.with_lock_options(LockOptions::new().with_hold_limit(ms(100)));
    let probe = Probe::new();
    let layer = once(&engine).on_lost(OnLost::Report).store_if(|_| false);
    let app = gated(layer, &probe);
    let first = spawn(&app, order("k"));
    tokio::time::sleep(ms(200)).await;
    let second = spawn(&app, order("k"));
    settle().await;
    assert_eq!(probe.inside(), 2, "the second has taken over");
    probe.let_through(2);
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!((&*first.text, &*second.text), ("done", "done"));
}

/// A token of the lock around it says nothing of what this layer keeps. Of a method that the layer does not
/// look at, it is all that there is.
#[tokio::test]
async fn a_request_without_a_key_is_told_of_no_lock_around_it() {
    let (engine, _) = engine();
    let told = async |token: Option<FencingToken>| token.is_some().to_string();
    let outer = LockLayer::new(LockClient::memory()).key(fixed("shop"));
    let orders = post(told).get(told);
    let app = Router::new().route("/orders", orders).layer(once(&engine).required(false));
    let app = app.layer(outer);
    assert_eq!(send(&app, order("k")).await.text, "true");
    for (method, expected) in [(Method::POST, "false"), (Method::GET, "true")] {
        let without = Request::builder().method(method.clone()).uri("/orders");
        let without = without.body(Body::empty()).unwrap();
        assert_eq!(send(&app, without).await.text, expected, "{method}");
    }
}
