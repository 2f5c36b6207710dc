//! A shop that takes each order once, a store with a switch, and requests by hand.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use futures_util::stream;
use http::Request;
use http_body::{Frame, SizeHint};
use lock_core::backend::{Fault, FaultKind};
use lock_core::idempotency::{
    BoxFuture, ClaimRecord, Claimed, Fingerprint, Found, Idempotency, MemoryRecords, Outcome,
    RecordId, RecordStore, Written,
};
use lock_core::memory::Memory;
use lock_core::{FencingToken, LockClient};
use lock_tower::IdempotencyLayer;
use lock_tower::idempotency::HasScope;
use tokio::sync::mpsc;

use crate::common::{Probe, send};

/// Records in memory that are out of reach while a test says so.
#[derive(Debug, Clone, Default)]
pub(crate) struct Records {
    inner: MemoryRecords,
    fault: Arc<Mutex<Option<FaultKind>>>,
    slow: Arc<Mutex<Duration>>,
}

impl Records {
    pub(crate) fn fail(&self, kind: FaultKind) {
        *self.fault.lock().unwrap() = Some(kind);
    }

    pub(crate) fn heal(&self) {
        *self.fault.lock().unwrap() = None;
    }

    /// From now on it takes so long to complete or abort.
    pub(crate) fn slow_ends(&self, by: Duration) {
        *self.slow.lock().unwrap() = by;
    }

    pub(crate) fn len(&self) -> usize {
        self.inner.len()
    }

    fn or_fault<'a, T: 'a + Send>(
        &'a self,
        verb: BoxFuture<'a, Result<T, Fault>>,
    ) -> BoxFuture<'a, Result<T, Fault>> {
        match *self.fault.lock().unwrap() {
            Some(kind) => Box::pin(async move { Err(Fault::new(kind, "a secret of the store")) }),
            None => verb,
        }
    }
}

impl RecordStore for Records {
    fn peek(&self, id: RecordId, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Found, Fault>> {
        self.or_fault(self.inner.peek(id, fingerprint))
    }

    fn claim<'a>(
        &'a self,
        id: RecordId,
        record: &'a ClaimRecord,
    ) -> BoxFuture<'a, Result<Claimed, Fault>> {
        self.or_fault(self.inner.claim(id, record))
    }

    fn complete<'a>(
        &'a self,
        id: RecordId,
        token: FencingToken,
        outcome: &'a Outcome,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Written, Fault>> {
        if self.fault.lock().unwrap().is_some() {
            return self.or_fault(Box::pin(std::future::pending()));
        }
        let slow = *self.slow.lock().unwrap();
        Box::pin(async move {
            tokio::time::sleep(slow).await;
            self.inner.complete(id, token, outcome, ttl).await
        })
    }

    fn abort(&self, id: RecordId, token: FencingToken) -> BoxFuture<'_, Result<Written, Fault>> {
        if self.fault.lock().unwrap().is_some() {
            return self.or_fault(Box::pin(std::future::pending()));
        }
        let slow = *self.slow.lock().unwrap();
        Box::pin(async move {
            tokio::time::sleep(slow).await;
            self.inner.abort(id, token).await
        })
    }
}

/// An engine in memory, with the hand of the test on its store.
pub(crate) fn engine() -> (Idempotency, Records) {
    let records = Records::default();
    (Idempotency::new("tests", LockClient::memory(), records.clone()), records)
}

/// Two engines that share no more than the stores.
pub(crate) fn two_processes() -> (Idempotency, Idempotency) {
    let (locks, records) = (Memory::default(), Records::default());
    let process =
        || Idempotency::new("tests", LockClient::with_backend(locks.clone()), records.clone());
    (process(), process())
}

/// A layer with the defaults, for clients that all may see all.
pub(crate) fn once(engine: &Idempotency) -> IdempotencyLayer<HasScope> {
    IdempotencyLayer::new(engine.clone()).global_scope()
}

/// How often a handler has run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs(Arc<AtomicUsize>);

impl Runs {
    pub(crate) fn count(&self) -> usize {
        self.0.load(SeqCst)
    }

    /// Counts a run, and says which it is, from 1.
    pub(crate) fn next(&self) -> usize {
        self.0.fetch_add(1, SeqCst) + 1
    }

    /// `POST /orders` and `PATCH /orders`, each answered as `answer` says to its number, from 1.
    pub(crate) fn shop<F, A>(&self, layer: IdempotencyLayer<HasScope>, answer: F) -> Router
    where
        F: Fn(usize) -> A + Clone + Send + Sync + 'static,
        A: IntoResponse,
    {
        let runs = self.clone();
        let handler = async move || -> Response { answer(runs.next()).into_response() };
        let orders = post(handler.clone()).patch(handler.clone()).get(handler);
        Router::new().route("/orders", orders).layer(layer)
    }
}

/// `POST /orders` with the probe, which stands at its gate, for a handler.
pub(crate) fn gated(layer: IdempotencyLayer<HasScope>, probe: &Probe) -> Router {
    let probe = probe.clone();
    Router::new().route("/orders", post(move || probe.clone().visit())).layer(layer)
}

/// `POST /orders` with this key.
pub(crate) fn order(key: &str) -> Request<Body> {
    request(key).body(Body::from("one of them")).unwrap()
}

pub(crate) fn request(key: &str) -> http::request::Builder {
    Request::post("/orders").header("idempotency-key", key)
}

/// A body of one frame, whose length is announced, and that counts how often it was polled.
#[derive(Debug, Clone)]
pub(crate) struct Announced {
    frame: Option<Bytes>,
    polled: Arc<AtomicUsize>,
}

impl Announced {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { frame: Some(vec![b'x'; bytes].into()), polled: Arc::default() }
    }

    pub(crate) fn polled(&self) -> usize {
        self.polled.load(SeqCst)
    }
}

impl http_body::Body for Announced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.polled.fetch_add(1, SeqCst);
        Poll::Ready(self.frame.take().map(|frame| Ok(Frame::data(frame))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.frame.as_ref().map_or(0, Bytes::len) as u64)
    }
}

/// `POST /orders` answers once with what the response makes of a body that the sender feeds, and
/// panics if it is run again.
pub(crate) fn streaming(
    layer: IdempotencyLayer<HasScope>,
    response: impl Fn(Body) -> Response + Clone + Send + Sync + 'static,
) -> (Router, mpsc::UnboundedSender<Result<Bytes, std::io::Error>>) {
    let (frames, receiver) = mpsc::unbounded_channel();
    let frames_of = |mut receiver: mpsc::UnboundedReceiver<_>| {
        Body::from_stream(stream::poll_fn(move |cx| receiver.poll_recv(cx)))
    };
    let body = Arc::new(Mutex::new(Some(frames_of(receiver))));
    let handler = async move || response(body.lock().unwrap().take().expect("it runs once"));
    (Router::new().route("/orders", post(handler)).layer(layer), frames)
}

pub(crate) async fn assert_never_runs_again(app: &Router) {
    for _ in 0..2 {
        let answer = send(app, order("k")).await;
        answer.assert_problem(409, "idempotency_response_not_stored");
        assert_eq!(answer.retry_after(), None);
    }
}
