//! axum extractors, destructured or not; the client comes from the state.
#![deny(warnings)]

use axum::extract::{FromRef, Path, Query, State};
use axum::routing::post;
use axum::{Json, Router};
use lock_core::{AcquireError, LockClient, distributed_lock};
use serde::Deserialize;

#[derive(Clone, FromRef)]
struct App {
    locks: LockClient,
    name: String,
}

#[derive(Deserialize)]
struct Pay {
    sku: String,
    amount: u64,
}

#[derive(Deserialize)]
struct Page {
    number: u32,
}

#[distributed_lock(key = "order:{id}:{req.sku}")]
async fn pay(
    State(state): State<App>,
    Path(id): Path<u64>,
    Json(req): Json<Pay>,
) -> Result<String, AcquireError> {
    Ok(format!("{}: {} of {} for {}", state.name, req.amount, req.sku, id))
}

#[distributed_lock(key = "pair:{a}:{b}")]
async fn pair(
    State(mut state): State<App>,
    Path((a, mut b)): Path<(u64, u64)>,
    Query(Page { number }): Query<Page>,
) -> Result<String, AcquireError> {
    b += a;
    state.name.push('!');
    Ok(format!("{}{number}{b}", state.name))
}

#[distributed_lock(key = "undestructured:{id.0}")]
async fn undestructured(state: State<App>, id: Path<u64>) -> Result<String, AcquireError> {
    Ok(format!("{}{}", state.name, id.0))
}

#[distributed_lock(key = "client-is-the-state")]
async fn client_is_the_state(State(_locks): State<LockClient>) -> Result<(), AcquireError> {
    Ok(())
}

#[distributed_lock(key = "named:{id}", client = state.locks)]
async fn named(State(state): State<App>, Path(id): Path<u64>) -> Result<String, AcquireError> {
    Ok(format!("{}{id}", state.name))
}

#[distributed_lock(key = "bytes", client = LockClient::global())]
async fn ignored(_: State<App>, _unused: Path<u64>) -> Result<(), AcquireError> {
    Ok(())
}

pub(crate) fn main() {
    let app = App { locks: LockClient::memory(), name: String::new() };
    let _: Router = Router::new()
        .route("/pay/{id}", post(pay))
        .route("/pair/{a}/{b}", post(pair))
        .route("/undestructured/{id}", post(undestructured))
        .route("/named/{id}", post(named))
        .route("/ignored/{id}", post(ignored))
        .with_state(app);
    let _: Router =
        Router::new().route("/", post(client_is_the_state)).with_state(LockClient::memory());
}
