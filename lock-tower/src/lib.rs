//! Runs the requests of one key one at a time, over all processes of a service.
//!
//! Some endpoints must not run twice at once for the same thing: the last item of a flash sale, a
//! payment, a nightly job behind a webhook. [`LockLayer`] is a tower layer that derives a key from
//! each request, takes the distributed lock of that key, and runs the handler under it. Requests
//! of other keys are not held up. Waiting is bounded in time, in number and in retries, and who
//! does not get the lock is told when to come back.
//!
//! ```toml
//! [dependencies]
//! axum = "0.8"
//! lock-core = { version = "0.1", features = ["redis"] }
//! lock-tower = "0.1"
//! tokio = { version = "1", features = ["full"] }
//! ```
//!
//! ```
//! use std::time::Duration;
//!
//! use axum::Router;
//! use axum::extract::Path;
//! use axum::routing::post;
//! use lock_core::LockClient;
//! use lock_tower::key::path;
//! use lock_tower::{FencingToken, LockLayer};
//!
//! async fn pay(Path(id): Path<u64>, FencingToken(token): FencingToken) -> String {
//!     // `UPDATE orders SET …, fence = :token WHERE id = :id AND fence <= :token`
//!     format!("order {id} paid under token {token}")
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = LockClient::connect("memory:").await?; // or "redis://127.0.0.1"
//! let app: Router = Router::new().route("/pay/{id}", post(pay)).route_layer(
//!     LockLayer::new(locks)
//!         .key(path("order:{id}").parsed::<u64>()) // the type of `Path`: `/pay/042` is 400
//!         .wait(Duration::from_secs(2))
//!         .retries(1)
//!         .waiters_per_key(1_000),
//! );
//! # use tower::ServiceExt;
//! # for (uri, status) in [("/pay/42", 200), ("/pay/042", 400)] {
//! #     let request = http::Request::post(uri).body(axum::body::Body::empty())?;
//! #     assert_eq!(app.clone().oneshot(request).await?.status(), status);
//! # }
//! # Ok(()) }
//! ```
//!
//! It works with every tower service over `http::Request`, axum or not:
//!
//! ```
//! use std::convert::Infallible;
//!
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use lock_tower::LockLayer;
//! use lock_tower::key::header;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pay = service_fn(|_: Request<Full<bytes::Bytes>>| async {
//!     Ok::<_, Infallible>(Response::new(Full::<bytes::Bytes>::from("paid")))
//! });
//! let key = header("account:{x-account}").parsed::<u64>();
//! let pay = LockLayer::new(lock_core::LockClient::memory()).key(key).layer(pay);
//!
//! let request = Request::post("/pay").header("x-account", "42").body(Full::default())?;
//! assert_eq!(pay.oneshot(request).await?.status(), 200);
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! | feature | | default |
//! |---|---|---|
//! | `axum` | keys from paths, extractors | yes |
//! | `idempotency` | [`IdempotencyLayer`] | yes |
//! | `inspect` | `inspect::router`: who holds and who waits, as JSON and as a page | |
//! | `metrics` | counters and histograms by the facade of the crate `metrics`, here and in lock-core | |
//! | `sqlite`, `postgres`, `mysql` | handlers whose record is completed in their own transaction | |
//!
//! Stores are features of lock-core.
//!
//! # Where things are
//!
//! - [`LockLayer`]: the options, their defaults and their bounds.
//!   [`permits`](LockLayer::permits) makes it a limit of concurrency over all servers, and
//!   [`shared_if`](LockLayer::shared_if) lets readers in together.
//! - [`key`]: what requests are serialised by, and why a key wants the type of its values.
//! - [`answer`]: what is answered when the lock was not to be had, as problem documents with
//!   stable codes, and to gRPC as its statuses.
//! - [`IdempotencyLayer`] and [`idempotency`]: an endpoint whose requests run once each, however
//!   often they are sent.
//! - [`LockGuardExt`] and [`FencingToken`]: the lock inside the handler. [`UpgradeLock`] takes it
//!   along to a web socket.
//!
//! # What it cannot promise
//!
//! A handler that is stopped for longer than its lease, or whose store loses its data, is no longer
//! alone. It is stopped at its next await and answered with 503, but what it sent before may still
//! arrive. Let the resource refuse a write whose fencing token is smaller than one that it has
//! seen.

#![cfg_attr(docsrs, feature(doc_cfg))]
// An instant is added to by `clock::after`: clippy.toml says which operators are meant.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod answer;
mod clock;
#[cfg(feature = "axum")]
pub mod extract;
#[cfg(all(feature = "idempotency", any(fuzzing, test)))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "idempotency")]
pub mod idempotency;
#[cfg(feature = "inspect")]
pub mod inspect;
pub mod key;
mod lock;
#[cfg(feature = "metrics")]
pub mod metrics;
mod observe;
mod permits;
mod pieces;

#[cfg(feature = "axum")]
pub use extract::{FencingToken, LockGuardExt};
#[cfg(feature = "idempotency")]
pub use idempotency::IdempotencyLayer;
pub use lock::{
    HoldUntil, LockBody, LockFuture, LockLayer, LockService, NoKey, OnLost, UpgradeLock,
};

/// Any error that a request's or a response's body can end with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
