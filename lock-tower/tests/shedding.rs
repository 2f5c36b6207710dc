//! The log of tower-http after a rush: a server that sheds load is not one that fails. It has a
//! process of its own, as `spans.rs` has.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use common::broken::{Broken, out_of_reach};
use common::{Probe, buy, ms, send, settle, shop, spawn};
use http::{Request, StatusCode};
use lock_core::LockClient;
use lock_core::idempotency::{Idempotency, MemoryRecords};
use lock_tower::answer::Cause;
use lock_tower::{IdempotencyLayer, LockLayer};
use tower_http::trace::TraceLayer;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Counts the lines at ERROR, whoever writes them.
#[derive(Clone, Default)]
struct Errors(Arc<AtomicUsize>);

impl Errors {
    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, SeqCst);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn traced(layer: LockLayer, probe: &Probe) -> Router {
    shop(layer, probe).layer(TraceLayer::new_for_http())
}

/// How many of 40 requests at once are answered so, while the key is held for longer than any may
/// wait.
async fn refused(app: &Router, status: StatusCode) -> usize {
    let rush: Vec<_> = (0..40).map(|_| spawn(app, buy("42"))).collect();
    let mut refused = 0;
    for answer in rush {
        refused += usize::from(answer.await.unwrap().status == status);
    }
    refused
}

#[tokio::test(start_paused = true)]
async fn a_rush_that_is_refused_writes_no_line_at_error_and_a_store_that_is_down_does() {
    let errors = Errors::default();
    let _listening = tracing::subscriber::set_default(errors.clone());
    let locks = LockClient::builder("memory:").waiters_per_key_max(5).connect().await.unwrap();
    let _held = locks.lock("buy:42").await.unwrap();
    let layer = || LockLayer::new(locks.clone()).wait(ms(100)).retries(0);
    for layer in [layer(), layer().waiters_per_key(5), layer().waiters(5)] {
        let app = traced(layer, &Probe::new());
        assert_eq!(refused(&app, StatusCode::TOO_MANY_REQUESTS).await, 35);
    }
    assert_eq!(refused(&traced(layer(), &Probe::new()), StatusCode::CONFLICT).await, 5);
    assert_eq!(errors.count(), 0);

    let ejected = layer().status(Cause::Overloaded, StatusCode::SERVICE_UNAVAILABLE);
    let app = traced(ejected, &Probe::new());
    assert_eq!(refused(&app, StatusCode::SERVICE_UNAVAILABLE).await, 35);
    assert_eq!(errors.count(), 35, "who asks for 503 has it");

    let down = LockLayer::new(LockClient::with_backend(Broken(out_of_reach))).retries(0);
    let app = traced(down, &Probe::new());
    settle().await;
    assert_eq!(send(&app, buy("42")).await.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(errors.count(), 36);
}

#[tokio::test(start_paused = true)]
async fn duplicates_that_are_refused_write_no_line_at_error() {
    let errors = Errors::default();
    let _listening = tracing::subscriber::set_default(errors.clone());
    let probe = Probe::new();
    let handler = probe.clone();
    let engine = Idempotency::new("tests", LockClient::memory(), MemoryRecords::new());
    let once = IdempotencyLayer::new(engine).global_scope().waiters(1);
    let app = Router::new().route("/orders", post(move || handler.clone().visit()));
    let app = app.layer(once).layer(TraceLayer::new_for_http());
    let order = || Request::post("/orders").header("idempotency-key", "k").body(Body::empty());
    let runs = spawn(&app, order().unwrap());
    settle().await;
    let rush: Vec<_> = (0..10).map(|_| spawn(&app, order().unwrap())).collect();
    let mut statuses = Vec::new();
    for answer in rush {
        statuses.push(answer.await.unwrap().status.as_u16());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [[409].as_slice(), &[429; 9]].concat());
    assert_eq!(errors.count(), 0);
    runs.abort();
}
