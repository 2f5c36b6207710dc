//! `#[idempotent]`: every option, on every shape of function, with futures that can be spawned.
#![deny(warnings)]

use std::time::Duration;

use axum::extract::{FromRef, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use lock_core::idempotency::{Idempotency, IdempotencyError, Keep, Replayable, Scope};
use lock_core::{LockHandle, idempotent};
use serde::{Deserialize, Serialize};

mod re_exported {
    pub mod lock {
        pub use lock_core::*;
    }
}

#[derive(Clone, FromRef)]
struct App {
    once: Idempotency,
}

#[derive(Serialize, Deserialize)]
struct Pay {
    request: String,
    amount: u64,
}

#[derive(Serialize, Deserialize)]
struct Receipt<T> {
    of: T,
}

struct AppError(IdempotencyError);

impl From<IdempotencyError> for AppError {
    fn from(error: IdempotencyError) -> Self {
        Self(error)
    }
}

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        (StatusCode::CONFLICT, self.0.to_string()).into_response()
    }
}

#[idempotent(
    key = "{pay.request}",
    scope = ("tenant:{}", tenant),
    client = state.once,
    ttl = "30 days",
    fingerprint = (pay.amount, tenant),
    wait = "250ms",
    on_unknown = "refuse",
    guard = lock,
    name = "shop::all",
    crate = re_exported::lock,
)]
async fn all(state: App, tenant: u64, pay: Pay) -> Result<Receipt<u64>, AppError> {
    let _: LockHandle = lock;
    Ok(Receipt { of: pay.amount })
}

#[idempotent(key = "{id}", scope = Scope::of("shop"))]
async fn by_state(State(app): State<App>, Path(id): Path<u64>) -> Result<String, AppError> {
    let _ = app;
    let id = if id > 3 { return Ok("large".to_owned()) } else { id };
    Ok(id.to_string())
}

#[idempotent(key = "{pay.request}", scope = global, fingerprint = pay)]
async fn with_json(State(_app): State<App>, Json(pay): Json<Pay>) -> Result<String, AppError> {
    fallible(pay.amount)?;
    Ok(pay.request)
}

fn fallible(_: u64) -> Result<(), AppError> {
    Ok(())
}

#[idempotent(key = "k", scope = global, client = once, on_unknown = "reexecute", wait = WAIT)]
async fn generic<T>(once: &Idempotency, mut of: T) -> Result<Receipt<T>, IdempotencyError>
where
    T: Serialize + for<'a> Deserialize<'a> + Clone + Send,
{
    of = of.clone();
    Ok(Receipt { of })
}

const WAIT: Duration = Duration::ZERO;

enum Reply {
    Done,
    Refused,
}

impl Replayable for Reply {
    fn keep(&self) -> Keep {
        match self {
            Self::Done => Keep::WithoutPayload,
            Self::Refused => Keep::Nothing,
        }
    }

    fn replay(_: &[u8]) -> Self {
        Self::Done
    }

    fn refuse(_: IdempotencyError) -> Self {
        Self::Refused
    }
}

#[idempotent(key = "own", scope = global)]
async fn own_type() -> Reply {
    Reply::Done
}

fn spawnable<T: Send>(_: T) {}

pub(crate) fn main() {
    let _ = |app: App, pay: Pay| spawnable(all(app, 1, pay));
    let _ = |once: Idempotency| spawnable(async move { generic(&once, 1_u8).await });
    let _ = || spawnable(own_type());
    let _ = (Reply::Done, Reply::Refused);
    let _: Router<App> = Router::new()
        .route("/{id}", axum::routing::post(by_state))
        .route("/", axum::routing::post(with_json));
}
