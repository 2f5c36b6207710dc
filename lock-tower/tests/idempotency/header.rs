//! Rules 10 and 11: which requests have a key, and which of them are looked at.

use axum::body::Body;
use http::{Method, Request};
use lock_core::idempotency::Duplicates;

use crate::common::{Probe, send, settle, spawn};
use crate::fixture::{Runs, engine, gated, once, order, request};

fn bare(method: Method) -> Request<Body> {
    Request::builder().method(method).uri("/orders").body(Body::empty()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn rule_10_a_bad_key_is_answered_with_400_and_a_code_of_its_own() {
    let (engine, records) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine), |_| "ran");
    for (key, code) in [
        ("", "idempotency_key_empty"),
        ("\"\"", "idempotency_key_empty"),
        ("a,b", "idempotency_key_repeated"),
        ("\"a\", \"b\"", "idempotency_key_repeated"),
        ("\"a\tb\"", "idempotency_key_invalid"),
        ("\"open", "idempotency_key_invalid"),
        ("\"secret-key\";v=1", "idempotency_key_invalid"),
        (&"k".repeat(256), "idempotency_key_too_long"),
    ] {
        let answer = send(&app, order(key)).await;
        answer.assert_problem(400, code);
        assert_eq!(answer.retry_after(), None);
        assert!(!answer.text.contains("secret-key"), "the key is not repeated: {}", answer.text);
    }
    let twice = request("a").header("idempotency-key", "a").body(Body::empty()).unwrap();
    send(&app, twice).await.assert_problem(400, "idempotency_key_repeated");
    send(&app, bare(Method::POST)).await.assert_problem(400, "idempotency_key_missing");
    assert_eq!((runs.count(), records.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn rule_10_a_quoted_key_and_a_bare_one_of_the_same_text_are_one() {
    let (engine, _) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine), |run| run.to_string());
    for key in ["8e03978e-40d5", "\"8e03978e-40d5\"", &"k".repeat(255)] {
        send(&app, order(key)).await;
    }
    assert_eq!(runs.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn rule_11_post_and_patch_need_a_key_and_other_methods_pass() {
    let (engine, records) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine), |run| run.to_string());
    send(&app, bare(Method::PATCH)).await.assert_problem(400, "idempotency_key_missing");
    for run in 1..=2 {
        let get = request("k").method(Method::GET).body(Body::empty()).unwrap();
        assert_eq!(send(&app, get).await.text, run.to_string());
    }
    assert_eq!(records.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn rule_11_the_methods_are_the_services_to_choose() {
    let (engine, _) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine).methods([Method::PATCH]), |run| run.to_string());
    for _ in 0..2 {
        let patch = request("k").method(Method::PATCH).body(Body::empty()).unwrap();
        assert_eq!(send(&app, patch).await.text, "1");
    }
    assert_eq!(send(&app, order("k")).await.text, "2", "POST passes now");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_not_required_protects_only_the_requests_that_have_one() {
    let (engine, _) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine).required(false), |run| run.to_string());
    for expected in ["1", "2"] {
        assert_eq!(send(&app, bare(Method::POST)).await.text, expected);
    }
    for _ in 0..2 {
        assert_eq!(send(&app, order("k")).await.text, "3");
    }
    // A bad key is a mistake of the client, not no key.
    send(&app, order("a,b")).await.assert_problem(400, "idempotency_key_repeated");
}

#[tokio::test(start_paused = true)]
async fn the_header_may_have_another_name() {
    let (engine, _) = engine();
    let runs = Runs::default();
    let app = runs.shop(once(&engine).header("x-request-key"), |run| run.to_string());
    let answer = send(&app, order("k")).await;
    answer.assert_problem(400, "idempotency_key_missing");
    assert!(answer.text.contains("x-request-key"), "{}", answer.text);
    for _ in 0..2 {
        let request = request("other").header("x-request-key", "k");
        assert_eq!(send(&app, request.body(Body::empty()).unwrap()).await.text, "1");
    }
}

#[tokio::test(start_paused = true)]
async fn one_duplicate_too_many_is_answered_with_429_at_once() {
    let (engine, _) = engine();
    let probe = Probe::new();
    let app = gated(once(&engine).waiters(1).duplicates(Duplicates::default()), &probe);
    let first = spawn(&app, order("k"));
    settle().await;
    // The first runs, so it does not count; the second waits.
    let second = spawn(&app, order("k"));
    settle().await;
    let answer = send(&app, order("k")).await;
    answer.assert_problem(429, "idempotency_waiters");
    assert!((1..=2).contains(&answer.retry_after().unwrap()));
    probe.let_through(1);
    assert_eq!((&*first.await.unwrap().text, &*second.await.unwrap().text), ("done", "done"));
    assert_eq!(send(&app, order("k")).await.text, "done", "the place is free again");
}
