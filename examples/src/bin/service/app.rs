//! The routes.
//!
//! | route | what keeps it in order |
//! |---|---|
//! | `POST /orders/{id}/ship` | `#[distributed_lock]`: one at a time for an order |
//! | `POST /stock/{sku}` | `LockLayer`: one at a time for a sku, bounded waits, 409 and 429 |
//! | `POST /orders/{id}/pay` | `IdempotencyLayer`: once for each `Idempotency-Key` of a buyer |
//! | `POST /reports` | `permits`: two at a time over all processes |
//! | `GET /locks` | who holds what, for operators |
//! | `POST /orders/{id}/repair` | an operator has the order, whoever holds it: `force_acquire` |
//! | `GET /metrics` | for Prometheus |

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, Path, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use lock_core::idempotency::{Idempotency, Scope};
use lock_core::{AcquireError, LockClient, distributed_lock};
use lock_tower::key::path;
use lock_tower::{FencingToken, IdempotencyLayer, LockLayer, inspect};
use tokio::time::sleep;

use crate::telemetry;

/// In place of what the handlers would do.
const WORK: Duration = Duration::from_millis(2);
const REPORT: Duration = Duration::from_millis(30);

/// The login `operator`, with the password `operator`. A real service asks its own.
pub(crate) const OPERATOR: &str = "Basic b3BlcmF0b3I6b3BlcmF0b3I=";

#[derive(Clone)]
struct App {
    locks: LockClient,
    /// Sold of each sku, and under which token.
    sold: Arc<Mutex<HashMap<String, (u64, u64)>>>,
}

impl FromRef<App> for LockClient {
    fn from_ref(app: &App) -> Self {
        app.locks.clone()
    }
}

pub(crate) fn routes(locks: &LockClient, once: &Idempotency) -> Router {
    let one_by_one = LockLayer::new(locks.clone())
        .key(path("stock:{sku}"))
        .wait(Duration::from_millis(500))
        .retries(1)
        .waiters_per_key(100);
    // Who owns a key; a real service asks its authentication.
    let once = IdempotencyLayer::new(once.clone()).scope(|head| {
        let buyer = head.headers.get("x-buyer").and_then(|buyer| buyer.to_str().ok());
        buyer.map(|buyer| Scope::of(buyer.to_owned())).ok_or(StatusCode::UNAUTHORIZED)
    });
    let operators = inspect::router(locks.clone(), |request| check_operator(&request.headers))
        .allow_force_release(|(), _key| true);
    let app = App { locks: locks.clone(), sold: Arc::default() };
    Router::new()
        .route("/orders/{id}/ship", post(ship))
        .route("/orders/{id}/repair", post(repair))
        .route("/stock/{sku}", post(sell).route_layer(one_by_one))
        .route("/orders/{id}/pay", post(pay).route_layer(once))
        .route("/reports", post(report))
        .with_state(app)
        .route("/metrics", get(telemetry::metrics))
        .merge(operators.into_router())
}

#[distributed_lock(key = "order:{id}", wait = "500ms", name = "ship an order", guard = lock)]
async fn ship(State(app): State<App>, Path(id): Path<u64>) -> Result<String, AcquireError> {
    sleep(WORK).await;
    Ok(format!("order {id} is on its way, under token {}", lock.token()))
}

/// Takes the order from a handler that hangs, ahead of all who wait for it.
async fn repair(
    State(app): State<App>,
    Path(id): Path<u64>,
    head: HeaderMap,
) -> Result<String, Response> {
    check_operator(&head).map_err(|refusal| refusal.into_response())?;
    let key = format!("order:{id}");
    let guard = app.locks.lock(key).name("repair an order").force_acquire().await;
    let guard = guard.map_err(|error| error.into_response())?;
    Ok(format!("order {id} is repaired, under token {}", guard.token()))
}

type Refusal = (StatusCode, [(axum::http::HeaderName, &'static str); 1]);

fn check_operator(head: &HeaderMap) -> Result<(), Refusal> {
    match head.get(AUTHORIZATION) {
        Some(login) if login == OPERATOR => Ok(()),
        _ => Err((StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Basic realm=\"locks\"")])),
    }
}

async fn sell(
    State(app): State<App>,
    Path(sku): Path<String>,
    FencingToken(token): FencingToken,
) -> String {
    sleep(WORK).await;
    let mut sold = app.sold.lock().expect("no panic");
    let (count, last) = sold.entry(sku).or_default();
    assert!(*last < token.get(), "a stale holder sells");
    (*count, *last) = (*count + 1, token.get());
    format!("{count} sold")
}

async fn pay(Path(id): Path<u64>) -> (StatusCode, String) {
    // Here the provider is called, with `order-{id}` as the idempotency key that it asks for.
    sleep(WORK).await;
    (StatusCode::CREATED, format!("order {id} is paid"))
}

#[distributed_lock(key = "reports", permits = 2, wait = "100ms", retries = 0, name = "a report")]
async fn report(State(app): State<App>) -> Result<&'static str, AcquireError> {
    sleep(REPORT).await;
    Ok("done")
}
