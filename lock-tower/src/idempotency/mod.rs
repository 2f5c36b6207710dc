//! Runs each request with an idempotency key once, and gives its retries the same response.
//!
//! A client that got no answer does not know whether its order was placed. It has to send it again,
//! and it must not be placed twice. [`IdempotencyLayer`] lets the client name its request in the
//! header `Idempotency-Key`. The first request of a name runs the handler, under the lock of that
//! name, which holds over all processes. Those that come meanwhile wait for it. All of them, and
//! each later one, get the response of the first.
//!
//! ```
//! use axum::Router;
//! use axum::routing::post;
//! use http::StatusCode;
//! use lock_core::LockClient;
//! use lock_core::idempotency::{Idempotency, MemoryRecords, Scope};
//! use lock_tower::{FencingToken, IdempotencyLayer};
//!
//! #[derive(Clone)]
//! struct Tenant(String);
//!
//! async fn order(FencingToken(token): FencingToken) -> (StatusCode, String) {
//!     (StatusCode::CREATED, format!("ordered under {token}"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = LockClient::connect("memory:").await?; // or "redis://127.0.0.1", with `RedisRecords`
//! let once = IdempotencyLayer::new(Idempotency::new("shop", locks, MemoryRecords::new()))
//!     // What the authentication, outside of this layer, has put into the request.
//!     .scope(|head| match head.extensions.get::<Tenant>() {
//!         Some(tenant) => Ok(Scope::of(tenant.0.clone())),
//!         None => Err(StatusCode::UNAUTHORIZED),
//!     });
//! let app: Router = Router::new().route("/orders", post(order)).route_layer(once);
//! # use tower::ServiceExt;
//! # let request = || http::Request::post("/orders").header("idempotency-key", "\"8e03978e\"")
//! #     .extension(Tenant("a".into())).body(axum::body::Body::empty());
//! # assert_eq!(app.clone().oneshot(request()?).await?.status(), 201);
//! # assert_eq!(app.oneshot(request()?).await?.headers()["idempotent-replayed"], "true");
//! # Ok(()) }
//! ```
//!
//! A layer without a scope is none:
//!
//! ```compile_fail,E0277
//! # use axum::{Router, routing::post};
//! # use lock_core::{LockClient, idempotency::{Idempotency, MemoryRecords}};
//! # use lock_tower::IdempotencyLayer;
//! let engine = Idempotency::new("shop", LockClient::memory(), MemoryRecords::new());
//! let app: Router = Router::new().route("/", post(async || ())).layer(IdempotencyLayer::new(engine));
//! ```
//!
//! # What is answered
//!
//! A replayed response carries `idempotent-replayed: true`. Whenever the layer answers by itself,
//! the answer is `application/problem+json` (RFC 9457) with a `code` that stays the same over
//! versions:
//!
//! | cause | status | `code` | `Retry-After` |
//! |---|---|---|---|
//! | no key where one is [`required`](IdempotencyLayer::required) | 400 | `idempotency_key_missing` | no |
//! | two header lines, or a comma list | 400 | `idempotency_key_repeated` | no |
//! | an empty key | 400 | `idempotency_key_empty` | no |
//! | a key over [255 bytes](KEY_BYTES_MAX) | 400 | `idempotency_key_too_long` | no |
//! | neither a quoted string nor a token | 400 | `idempotency_key_invalid` | no |
//! | the scope closure refuses | as it says | `idempotency_scope_rejected`, or as it says | no |
//! | the request's body is over its bound | 413 | `idempotency_body_too_large` | no |
//! | the request's body takes too long | 408 | `idempotency_body_timeout` | no |
//! | the request's body breaks off | 400 | `idempotency_body_incomplete` | no |
//! | too many duplicates of one request wait | 429 | `idempotency_waiters_per_key` | yes |
//! | too many requests of one scope wait or are read | 429 | `idempotency_waiters_per_scope` | yes |
//! | too many requests wait or are read | 429 | `idempotency_waiters` | yes |
//! | their bodies are too large together | 429 | `idempotency_waiting_bytes` | yes |
//! | a request with this key runs | 409 | `idempotency_in_flight` | yes |
//! | the key was used for another request | 422 | `idempotency_key_reused` | no |
//! | it ran, and its response was too large, a stream or broken, or [`store_if`](IdempotencyLayer::store_if) panicked | 409 | `idempotency_response_not_stored` | no |
//! | it began, and nobody knows how it ended | 409 | `idempotency_outcome_unknown` | no |
//! | the handler lost its lock | 503 | `idempotency_lost` | yes |
//! | the handler's transaction was not committed | 503 | `idempotency_not_committed` | yes |
//! | the handler panicked | 500 | `idempotency_handler_panicked` | no |
//! | the line of this process is full | 429 | `idempotency_overloaded` | yes |
//! | the lock service or the record store is out of reach | 503 | `idempotency_unavailable` | where it may come back by itself |
//! | the record is of another version, or damaged | 500 | `idempotency_record_unreadable` | no |
//! | the layer or the engine is set up wrongly | 500 | `idempotency_misconfigured` | no |
//! | the client or the runtime is shut down | 503 | `idempotency_closed` | yes |
//!
//! [`status`](IdempotencyLayer::status) gives a cause another status. To a request of gRPC all of
//! them are statuses of gRPC, as in [`answer`](crate::answer#grpc). Each answer that is given in
//! place of the handler carries a [`HandlerRan`](lock_core::scope::HandlerRan) in its extensions, a
//! replayed one none.
//!
//! `Retry-After` has the jitter of [`answer`](crate::answer). For a request in flight it is the time
//! for which it has run, at most 30 s. The key is not repeated to the client, and in no log.
//!
//! # Where it stands
//!
//! Inside the authentication: a replay then is denied when authentication denies. Outside a
//! [`LockLayer`](crate::LockLayer): a replay then waits for no lock, and a handler that outlives
//! its client keeps the lock that it runs under.
//!
//! Inside of response compression: a record is kept plain then, and each retry gets the coding that
//! it asks for. Inside of timeouts: a handler that outlives one runs on, and its retry gets its
//! response. One that a timeout inside of this layer cuts is run again, or refused, as
//! [`on_unknown`](IdempotencyLayer::on_unknown) says. Inside of a concurrency limit, with what
//! [`OnDisconnect::Finish`] says about it.
//!
//! # What it cannot promise
//!
//! That the handler runs once, where a process dies or stands still past its lease between the
//! handler's last write and the record's. The outcome is unknown then. The retry runs it again with
//! a higher fencing token, or is refused, as [`on_unknown`](lock_core::idempotency::Idempotency)
//! says. Send the token with each write and let the resource refuse a smaller one.

// Files:
//
// - `layer`: the layer and its options. `config`: the options as its services share them.
// - `service`, `future`: the service and its future. `exchange`: one request with a key.
// - `key`, `scope`: the key and its owner. `fingerprint`, `query`: what makes requests the same.
// - `places`: the requests that may be in memory and do not run yet.
// - `handler`, `running`: the handler under its execution. `task`: tasks that outlive a request.
// - `outcome`, `ending`: how far the handler got, and how its execution ends.
// - `capture`, `record`, `headers`: the response, read for its record and kept there.
// - `flow`, `passage`, `streams`: responses whose length nobody has said.
// - `body`: the body of the response. `cause`, `refusal`: the answers of the layer.

mod body;
mod capture;
mod cause;
mod config;
mod ending;
mod exchange;
mod fingerprint;
mod flow;
mod future;
mod handler;
mod headers;
pub(crate) mod key;
mod layer;
mod outcome;
mod passage;
mod places;
mod query;
pub(crate) mod record;
mod refusal;
mod running;
mod scope;
mod service;
mod streams;
mod task;

pub use body::IdempotencyBody;
pub use cause::Cause;
pub use config::{OnDisconnect, OnStoreDown, stored_by_default};
pub use future::IdempotencyFuture;
pub use key::KEY_BYTES_MAX;
pub use layer::{BODY_BYTES_MAX, IdempotencyLayer, REQUEST_WAIT, RESPONSE_WAIT, WAITING_BYTES_MAX};
pub use refusal::Refusal;
pub use scope::{HasScope, NoScope, ScopeOutcome};
pub use service::IdempotencyService;

/// Set on replayed responses.
const REPLAYED_HEADER: http::HeaderName = http::HeaderName::from_static("idempotent-replayed");
