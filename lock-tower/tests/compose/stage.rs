//! A shop whose handler knows whether it runs under its lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::post;
use http::Request;
use lock_core::LockClient;
use lock_core::idempotency::{Idempotency, MemoryRecords};
use lock_core::memory::Memory;
use lock_tower::idempotency::HasScope;
use lock_tower::key::{PathKey, path};
use lock_tower::{FencingToken, IdempotencyLayer, LockLayer};

use crate::common::{Answer, send, settle};

/// The order; long enough to be worth compressing.
pub(crate) const ORDER: &str = "a lamp, a lamp, a lamp, a lamp, a lamp, a lamp, a lamp";

#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) locks: LockClient,
    pub(crate) once: Idempotency,
    /// Another process.
    elsewhere: LockClient,
    runs: Arc<AtomicUsize>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let store = Memory::new();
        let locks = LockClient::with_backend(store.clone());
        Self {
            once: Idempotency::new("tests", locks.clone(), MemoryRecords::new()),
            locks,
            elsewhere: LockClient::with_backend(store),
            runs: Arc::default(),
        }
    }

    pub(crate) fn lock(&self) -> LockLayer<PathKey> {
        LockLayer::new(self.locks.clone()).key(path("buy:{sku}"))
    }

    pub(crate) fn once(&self) -> IdempotencyLayer<HasScope> {
        IdempotencyLayer::new(self.once.clone()).global_scope()
    }

    /// `POST /buy/{sku}`, and nothing around it.
    pub(crate) fn shop(&self) -> Router {
        Router::new().route("/buy/{sku}", post(buy)).with_state(self.clone())
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(SeqCst)
    }

    /// Sends an order, and sees that it ran under a lock and left none behind.
    pub(crate) async fn orders(&self, app: &Router, place: &str) -> Answer {
        let before = self.runs();
        let answer = send(app, order("k")).await;
        assert_eq!((answer.status.as_u16(), &*answer.text), (200, &*sold()), "{place}");
        assert_eq!(self.runs(), before + 1, "{place}");
        self.is_free(place).await;
        answer
    }

    /// Nothing of this process holds or waits, and another process may have the lamp.
    pub(crate) async fn is_free(&self, place: &str) {
        settle().await;
        let stats = self.locks.stats();
        assert_eq!((stats.keys, stats.held, stats.waiters), (0, 0, 0), "{place}");
        let free = self.elsewhere.lock("buy:lamp").try_acquire().await.unwrap();
        free.unwrap_or_else(|| panic!("{place}: it is held")).release().await.unwrap();
    }
}

async fn buy(
    State(stage): State<Stage>,
    token: Option<FencingToken>,
    what: String,
) -> Result<String, &'static str> {
    stage.runs.fetch_add(1, SeqCst);
    let held = stage.locks.stats().held == 1 && token.is_some();
    if held { Ok(format!("sold: {what}")) } else { Err("without a lock") }
}

pub(crate) fn sold() -> String {
    format!("sold: {ORDER}")
}

/// An order of a lamp under an idempotency key, by a client that is let in everywhere.
pub(crate) fn order(key: &str) -> Request<Body> {
    Request::post("/buy/lamp")
        .header("idempotency-key", key)
        .header("authorization", "Bearer ann")
        .header("x-forwarded-for", "192.0.2.1")
        .header("content-type", "text/plain; charset=utf-8")
        .body(Body::from(ORDER))
        .unwrap()
}

/// Lets so many requests of a client pass at once. The type has a name of another crate in it.
macro_rules! rate {
    ($burst:expr) => {{
        let mut config = tower_governor::governor::GovernorConfigBuilder::default();
        let mut config = config.key_extractor(tower_governor::key_extractor::SmartIpKeyExtractor);
        config.per_second(3_600).burst_size($burst).finish().unwrap()
    }};
}
pub(crate) use rate;

/// Answers of the governor are of the type `axum::body::Body` only.
macro_rules! governed {
    ($config:expr) => {
        crate::stage::outside!(
            tower_governor::GovernorLayer::new($config),
            tower_http::map_response_body::MapResponseBodyLayer::new(axum::body::Body::new)
        )
    };
}
pub(crate) use governed;

/// A router behind a layer of ours and another one, for each way to put them together. Each has a
/// name that says where the other stands.
macro_rules! places {
    ($shop:expr, $ours:expr, $other:expr) => {{
        let one = |name, app: axum::Router| (name, app);
        vec![
            one("outside, one builder", $shop.layer(outside!($other, $ours))),
            one("inside, one builder", $shop.layer(outside!($ours, $other))),
            one("outside, of the routes", $shop.route_layer(outside!($other, $ours))),
            one("inside, of the routes", $shop.route_layer(outside!($ours, $other))),
            one("outside, of the router", $shop.route_layer($ours).layer($other)),
            one("inside, of the route", $shop.route_layer($other).layer($ours)),
        ]
    }};
}
pub(crate) use places;

/// The first outside of the second.
macro_rules! outside {
    ($outer:expr, $inner:expr) => {
        tower::ServiceBuilder::new().layer($outer).layer($inner)
    };
}
pub(crate) use outside;
