//! The memory that one tenant's requests may take, and what they leave to the others.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use bytes::Bytes;
use futures_util::stream;
use http::Request;
use lock_core::idempotency::{Idempotency, Scope};
use lock_tower::IdempotencyLayer;
use lock_tower::idempotency::{Cause, HasScope};

use crate::common::{Answer, Probe, send, settle, spawn};
use crate::fixture::{engine, once};

const MIB: usize = 1024 * 1024;

fn per_tenant(engine: &Idempotency) -> IdempotencyLayer<HasScope> {
    IdempotencyLayer::new(engine.clone())
        .scope(|head| Scope::of(head.headers["x-tenant"].to_str().unwrap().to_owned()))
}

/// `/slow` stands at the gate of the probe, `/fast` answers.
fn shop(layer: IdempotencyLayer<HasScope>, probe: &Probe) -> Router {
    let probe = probe.clone();
    let slow = post(move || probe.clone().visit());
    Router::new().route("/slow", slow).route("/fast", post(async || "fast")).layer(layer)
}

fn to(path: &str, tenant: &str, key: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::post(path).header("x-tenant", tenant).header("idempotency-key", key);
    request.body(body.into()).unwrap()
}

/// An upload that has sent so many bytes, and goes on without an end.
fn upload(bytes: usize) -> Body {
    let sent = stream::iter([Ok::<_, Infallible>(Bytes::from(vec![b'x'; bytes]))]);
    Body::from_stream(stream::StreamExt::chain(sent, stream::pending()))
}

/// How many were answered at once, and how.
async fn refused(all: Vec<tokio::task::JoinHandle<Answer>>) -> Vec<Answer> {
    settle().await;
    let mut refused = Vec::new();
    for one in all {
        if one.is_finished() {
            refused.push(one.await.unwrap());
        }
    }
    refused
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_duplicates_of_one_slow_key_keep_no_other_tenant_out() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let app = shop(per_tenant(&engine), &probe);
    let all = (0..10_101).map(|_| spawn(&app, to("/slow", "a", "k", "pay"))).collect();
    let refused = refused(all).await;
    assert_eq!(send(&app, to("/fast", "b", "k", "pay")).await.text, "fast");
    assert_eq!(send(&app, to("/fast", "a", "another", "pay")).await.text, "fast");
    // One runs and 100 wait.
    assert_eq!(refused.len(), 10_000);
    for answer in refused {
        answer.assert_problem(429, "idempotency_waiters_per_key");
        assert!((1..=2).contains(&answer.retry_after().unwrap()));
    }
    assert_eq!(probe.entered(), 1);
}

#[tokio::test(start_paused = true)]
async fn first_requests_are_let_in_however_full_it_is_of_duplicates_even_of_their_own_tenant() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let layer = per_tenant(&engine).waiters(2).waiters_per_scope(2).waiters_per_key(2);
    let app = shop(layer, &probe);
    let all: Vec<_> = (0..3).map(|_| spawn(&app, to("/slow", "a", "k", "pay"))).collect();
    settle().await;
    for (tenant, key) in [("a", "1"), ("b", "k"), ("b", "2")] {
        assert_eq!(send(&app, to("/fast", tenant, key, "pay")).await.text, "fast");
    }
    probe.let_through(1);
    for one in all {
        assert_eq!(one.await.unwrap().text, "done");
    }
}

#[tokio::test(start_paused = true)]
async fn the_duplicates_of_many_keys_of_one_tenant_are_bounded_together() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let layer = per_tenant(&engine).waiters_per_scope(3).on_refused(|refusal| {
        assert_eq!(refusal.cause(), Cause::WaitersPerScope);
        refusal.default_response()
    });
    let app = shop(layer, &probe);
    let twice = |tenant, key: &str| [0; 2].map(|_| spawn(&app, to("/slow", tenant, key, "pay")));
    let all = (0..4).flat_map(|key| twice("a", &key.to_string())).collect();
    let refused = refused(all).await;
    assert_eq!(refused.len(), 1);
    refused[0].assert_problem(429, "idempotency_waiters_per_scope");
    let [_, other] = twice("b", "k");
    settle().await;
    assert!(!other.is_finished(), "it waits");
}

#[tokio::test(start_paused = true)]
async fn the_large_bodies_of_one_tenants_duplicates_are_bounded_and_keep_nobody_out() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let app = shop(per_tenant(&engine), &probe);
    let large = || Bytes::from(vec![b'x'; MIB]);
    let all = (0..100).map(|_| spawn(&app, to("/slow", "a", "k", large()))).collect();
    let refused = refused(all).await;
    // A quarter of 64 MiB waits, beside the one that runs.
    assert_eq!(refused.len(), 100 - 1 - 16);
    for answer in refused {
        answer.assert_problem(429, "idempotency_waiting_bytes");
        assert!(answer.retry_after().is_some());
    }
    for (tenant, key) in [("a", "another"), ("b", "k")] {
        assert_eq!(send(&app, to("/fast", tenant, key, large())).await.text, "fast");
    }
}

#[tokio::test(start_paused = true)]
async fn one_tenants_slow_uploads_keep_no_other_tenant_out() {
    let (engine, _) = engine();
    let app = shop(per_tenant(&engine), &Probe::new());
    let uploads =
        (0..1_002).map(|key| spawn(&app, to("/fast", "a", &key.to_string(), upload(1)))).collect();
    let refused = refused(uploads).await;
    assert_eq!(refused.len(), 2);
    refused[0].assert_problem(429, "idempotency_waiters_per_scope");
    assert_eq!(send(&app, to("/fast", "b", "k", "pay")).await.text, "fast");
}

#[tokio::test(start_paused = true)]
async fn the_bytes_of_one_tenants_uploads_are_counted_as_they_arrive_and_keep_nobody_out() {
    let (engine, _) = engine();
    let layer = per_tenant(&engine).request_bytes_max(100).waiting_bytes_max(1_000);
    let app = shop(layer, &Probe::new());
    let uploads = |tenant: &'static str, count: usize, bytes| {
        let app = app.clone();
        let one =
            move |key| spawn(&app, to("/fast", tenant, &format!("{bytes}.{key}"), upload(bytes)));
        (0..count).map(one).collect()
    };
    // Bodies that have not arrived are in nobody's memory, however many they are.
    assert!(refused(uploads("a", 100, 0)).await.is_empty());
    let too_many = refused(uploads("a", 4, 80)).await;
    assert_eq!(too_many.len(), 1);
    too_many[0].assert_problem(429, "idempotency_waiting_bytes");
    assert!(refused(uploads("b", 3, 80)).await.is_empty());
    // Given back when they are answered.
    tokio::time::sleep(std::time::Duration::from_secs(40)).await;
    assert!(refused(uploads("a", 3, 80)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_all_share_has_the_whole_of_it() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let layer = once(&engine).waiters_per_scope(1).first_requests_per_scope(1);
    let app = shop(layer, &probe);
    let all: Vec<_> = (0..5).map(|_| spawn(&app, to("/slow", "a", "k", "pay"))).collect();
    let mut uploads: Vec<_> =
        (0..5).map(|key| spawn(&app, to("/fast", "a", &key.to_string(), upload(MIB)))).collect();
    uploads.extend(all);
    assert!(refused(uploads).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn places_are_given_back_by_those_who_are_answered_who_run_and_who_go_away() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let layer = per_tenant(&engine).waiters_per_key(1).first_requests_per_scope(1);
    let app = shop(layer, &probe);
    let first = spawn(&app, to("/slow", "a", "k", "pay"));
    settle().await;
    assert_eq!(send(&app, to("/fast", "a", "0", "pay")).await.text, "fast", "while that one runs");
    for _ in 0..3 {
        let second = spawn(&app, to("/slow", "a", "k", "pay"));
        settle().await;
        let third = send(&app, to("/slow", "a", "k", "pay")).await;
        third.assert_problem(429, "idempotency_waiters_per_key");
        second.abort();
        settle().await;
    }
    let second = spawn(&app, to("/slow", "a", "k", "pay"));
    settle().await;
    probe.let_through(1);
    assert_eq!((&*first.await.unwrap().text, &*second.await.unwrap().text), ("done", "done"));
    for key in ["1", "2", "k"] {
        let gone = spawn(&app, to("/fast", "a", key, upload(1)));
        settle().await;
        let answer = send(&app, to("/fast", "a", "another", "pay")).await;
        answer.assert_problem(429, "idempotency_waiters_per_scope");
        gone.abort();
        settle().await;
    }
    assert_eq!(send(&app, to("/fast", "a", "another", "pay")).await.text, "fast");
}
