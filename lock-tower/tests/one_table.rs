//! A client that meets a lock is told the same by a macro and by a layer: the two are one service
//! to it.

mod common;

use std::future::{Future, pending};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use common::broken::{Broken, out_of_reach, password_refused, unreplicated};
use common::{Answer, buy, ms, send, settle};
use lock_core::{AcquireError, LockClient, distributed_lock};
use lock_tower::LockLayer;
use lock_tower::key::path;

type Outcome = Result<&'static str, AcquireError>;

#[distributed_lock(key = "buy:{sku}", wait = "10ms", retries = 0, hold = "20ms")]
async fn annotated(State(_locks): State<LockClient>, Path(sku): Path<String>) -> Outcome {
    drop(sku);
    pending().await
}

#[distributed_lock(key = "buy:{sku}", lease = Duration::ZERO)]
async fn set_up_wrongly(State(_locks): State<LockClient>, Path(sku): Path<String>) -> Outcome {
    drop(sku);
    Ok("bought")
}

fn by_macro(locks: &LockClient) -> Router {
    Router::new().route("/buy/{sku}", post(annotated)).with_state(locks.clone())
}

fn by_layer(locks: &LockClient) -> Router {
    let layer = LockLayer::new(locks.clone()).wait(ms(10)).retries(0).admission(false);
    behind(layer.hold_limit(ms(20)))
}

fn behind(layer: LockLayer) -> Router {
    let handler = async || pending::<&'static str>().await;
    Router::new().route("/buy/{sku}", post(handler)).route_layer(layer.key(path("buy:{sku}")))
}

/// An answer without what is drawn at random.
fn without_jitter(mut answer: Answer) -> Answer {
    if let Some(after) = answer.headers.remove("retry-after") {
        let after = after.to_str().unwrap();
        assert!(["1", "2"].contains(&after), "{after}");
        let drawn = format!(r#""retry_after":{after},"#);
        let parts: Vec<_> = answer.text.split(&drawn).map(str::to_owned).collect();
        assert_eq!(parts.len(), 2, "once in the document: {}", answer.text);
        answer.text = parts.join(r#""retry_after":"drawn","#);
    }
    answer
}

async fn assert_same(by_macro: &Router, by_layer: &Router, sku: &str, status: u16, code: &str) {
    let answers = [send(by_macro, buy(sku)).await, send(by_layer, buy(sku)).await];
    for answer in &answers {
        answer.assert_problem(status, code);
    }
    let [annotated, layered] = answers.map(without_jitter);
    assert_eq!(annotated.status, layered.status);
    assert_eq!(annotated.headers, layered.headers);
    assert_eq!(annotated.text, layered.text);
}

async fn same_for(locks: &LockClient, sku: &str, status: u16, code: &str) {
    assert_same(&by_macro(locks), &by_layer(locks), sku, status, code).await;
}

#[tokio::test(start_paused = true)]
async fn a_busy_key_is_the_same_document_from_a_layer_and_from_a_macro() {
    let locks = LockClient::memory();
    let _held = locks.lock("buy:42").await.unwrap();
    same_for(&locks, "42", 409, "lock_timeout").await;
}

#[tokio::test(start_paused = true)]
async fn a_full_line_is_the_same_document_from_a_layer_and_from_a_macro() {
    let locks = LockClient::builder("memory:").waiters_per_key_max(1).connect().await.unwrap();
    let _held = locks.lock("buy:42").await.unwrap();
    let _waits = waits(locks.lock("buy:42").wait(Duration::from_secs(60)).acquire());
    settle().await;
    same_for(&locks, "42", 429, "lock_overloaded").await;
}

fn waits<F>(acquire: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(acquire)
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_a_store_is_the_same_document_from_a_layer_and_from_a_macro() {
    for (fault, code) in [
        (out_of_reach as fn() -> _, "lock_unavailable"),
        (password_refused, "lock_unavailable"),
        (unreplicated, "lock_not_replicated"),
    ] {
        same_for(&LockClient::with_backend(Broken(fault)), "42", 503, code).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_loss_and_a_shutdown_are_the_same_document_from_a_layer_and_from_a_macro() {
    let locks = LockClient::memory();
    same_for(&locks, "42", 503, "lock_lost").await;
    let _ = locks.shutdown(Duration::ZERO).await;
    same_for(&locks, "42", 503, "lock_closed").await;
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_the_same_document_from_a_layer_and_from_a_macro() {
    let locks = LockClient::memory();
    let wrong = Router::new().route("/buy/{sku}", post(set_up_wrongly)).with_state(locks.clone());
    let layer = behind(LockLayer::new(locks.clone()).lease(Duration::ZERO));
    assert_same(&wrong, &layer, "42", 500, "lock_misconfigured").await;

    let long = "4".repeat(600);
    same_for(&locks, &long, 400, "lock_key_rejected").await;
    let refused = send(&by_layer(&locks), buy(&long)).await;
    assert!(!refused.text.contains("44"), "the key is not repeated: {}", refused.text);
}
