//! Shared by the tests: a handler that can be watched and held up, and requests by hand.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod broken;
pub(crate) mod listen;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::{HeaderMap, Request, StatusCode};
use lock_tower::LockLayer;
use lock_tower::key::path;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tower::ServiceExt;

/// A handler that waits at a gate and counts who is inside.
#[derive(Clone)]
pub(crate) struct Probe(Arc<Counts>);

struct Counts {
    gate: Semaphore,
    entered: AtomicUsize,
    inside: AtomicUsize,
    inside_max: AtomicUsize,
    finished: AtomicUsize,
}

struct Inside(Probe);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.inside.fetch_sub(1, SeqCst);
    }
}

impl Probe {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Counts {
            gate: Semaphore::new(0),
            entered: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            inside_max: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
        }))
    }

    /// A probe whose gate is open.
    pub(crate) fn open() -> Self {
        let probe = Self::new();
        probe.let_through(Semaphore::MAX_PERMITS / 2);
        probe
    }

    pub(crate) async fn visit(self) -> &'static str {
        let counts = &*self.0;
        counts.entered.fetch_add(1, SeqCst);
        let inside = counts.inside.fetch_add(1, SeqCst) + 1;
        counts.inside_max.fetch_max(inside, SeqCst);
        let _inside = Inside(self.clone());
        counts.gate.acquire().await.unwrap().forget();
        counts.finished.fetch_add(1, SeqCst);
        "done"
    }

    pub(crate) fn let_through(&self, visitors: usize) {
        self.0.gate.add_permits(visitors);
    }

    pub(crate) fn entered(&self) -> usize {
        self.0.entered.load(SeqCst)
    }

    pub(crate) fn inside(&self) -> usize {
        self.0.inside.load(SeqCst)
    }

    pub(crate) fn inside_max(&self) -> usize {
        self.0.inside_max.load(SeqCst)
    }

    pub(crate) fn finished(&self) -> usize {
        self.0.finished.load(SeqCst)
    }
}

/// `POST /buy/{sku}` under `buy:{sku}`, with the probe for a handler.
pub(crate) fn shop(layer: LockLayer, probe: &Probe) -> Router {
    let probe = probe.clone();
    Router::new()
        .route("/buy/{sku}", post(move || probe.clone().visit()))
        .route_layer(layer.key(path("buy:{sku}")))
}

pub(crate) fn buy(sku: &str) -> Request<Body> {
    Request::post(format!("/buy/{sku}")).body(Body::empty()).unwrap()
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn code(&self) -> String {
        self.problem()["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn problem(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    pub(crate) fn retry_after(&self) -> Option<u64> {
        Some(self.headers.get("retry-after")?.to_str().unwrap().parse().unwrap())
    }

    /// Everything that all answers of the layer have in common.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!((self.status.as_u16(), &*self.code()), (status, code), "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.headers["cache-control"], "no-store");
        let problem = self.problem();
        assert_eq!(problem["status"], status);
        assert_eq!(problem["type"], "about:blank");
        assert!(problem["title"].is_string() && problem["detail"].is_string(), "{problem}");
        assert_eq!(problem["retry_after"].as_u64(), self.retry_after());
    }
}

pub(crate) async fn send(app: &Router, request: Request<Body>) -> Answer {
    let response = within(app.clone().oneshot(request)).await.unwrap();
    let (head, body) = response.into_parts();
    let bytes = within(axum::body::to_bytes(body, usize::MAX)).await.unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    Answer { status: head.status, headers: head.headers, text }
}

pub(crate) fn spawn(app: &Router, request: Request<Body>) -> JoinHandle<Answer> {
    let app = app.clone();
    tokio::spawn(async move { send(&app, request).await })
}

/// Lets every task run until it waits for something: the paused clock only goes on when nobody
/// can run.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The paused clock.
#[allow(clippy::disallowed_methods)]
pub(crate) fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Turns a test that would hang into one that fails.
#[track_caller]
pub(crate) fn within<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let waiting = tokio::time::timeout(Duration::from_secs(60), future);
    async { waiting.await.expect("still pending after a minute") }
}
