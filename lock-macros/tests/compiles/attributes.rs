//! Above and below `#[debug_handler]` and `#[instrument]`.
#![deny(warnings)]

use axum::debug_handler;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::get;
use lock_core::{AcquireError, LockClient, distributed_lock};
use tracing::instrument;

type Locks = State<LockClient>;

#[debug_handler(state = LockClient)]
#[distributed_lock(key = "a:{id}")]
async fn debug_above(State(locks): State<LockClient>, Path(id): Path<u64>) -> impl IntoResponse {
    drop(locks);
    format!("{id}")
}

#[distributed_lock(key = "a:{id}")]
#[debug_handler(state = LockClient)]
async fn debug_below(
    State(locks): State<LockClient>,
    Path(id): Path<u64>,
) -> Result<String, AcquireError> {
    drop(locks);
    Ok(format!("{id}"))
}

#[instrument(skip_all, fields(id))]
#[distributed_lock(key = "a:{id}", guard = g)]
async fn instrument_above(
    State(locks): State<LockClient>,
    Path(id): Path<u64>,
) -> Result<String, AcquireError> {
    drop(locks);
    if id == 0 {
        return Ok(g.token().to_string());
    }
    Ok(format!("{id}"))
}

#[distributed_lock(key = "a:{id}")]
#[instrument(skip(locks), err, ret)]
async fn instrument_below(
    State(locks): State<LockClient>,
    Path(mut id): Path<u64>,
) -> Result<String, AcquireError> {
    drop(locks);
    id += 1;
    Ok(format!("{id}"))
}

#[debug_handler(state = LockClient)]
#[instrument(err, skip_all)]
#[distributed_lock(key = "a:{id}")]
#[allow(clippy::unused_async)]
async fn all(State(locks): State<LockClient>, Path(id): Path<u64>) -> Result<String, AcquireError> {
    drop(locks);
    Ok(format!("{id}"))
}

// A type alias hides the `State`, so the client has to be named.
#[distributed_lock(key = "a", client = locks.0)]
async fn alias(locks: Locks) -> impl IntoResponse {
    drop(locks);
}

#[async_trait::async_trait]
trait Work {
    async fn above(&self, id: u64) -> Result<u64, AcquireError>;
    async fn below(&self, id: u64) -> Result<u64, AcquireError>;
}

struct Shop {
    locks: LockClient,
}

#[async_trait::async_trait]
impl Work for Shop {
    #[instrument(skip(self))]
    #[distributed_lock(key = "a:{id}", client = self.locks)]
    async fn above(&self, id: u64) -> Result<u64, AcquireError> {
        tokio::task::yield_now().await;
        Ok(id)
    }

    #[distributed_lock(key = "a:{id}", client = self.locks)]
    #[instrument(skip(self), err)]
    async fn below(&self, id: u64) -> Result<u64, AcquireError> {
        tokio::task::yield_now().await;
        Ok(id)
    }
}

pub(crate) fn main() {
    let shop = Shop { locks: LockClient::memory() };
    let _ = (shop.above(1), shop.below(1));
    let _: axum::Router = axum::Router::new()
        .route("/1/{id}", get(debug_above))
        .route("/2/{id}", get(debug_below))
        .route("/3/{id}", get(instrument_above))
        .route("/4/{id}", get(instrument_below))
        .route("/5/{id}", get(all))
        .route("/6", get(alias))
        .with_state(LockClient::memory());
}
