#![allow(unused)]

use axum::response::IntoResponse;
use lock_core::idempotency::{Idempotency, IdempotencyError};
use lock_core::{LockClient, idempotent};

type Outcome<T> = Result<T, IdempotencyError>;

#[idempotent(key = "k", scope = global)]
async fn text() -> String {
    String::new()
}

#[idempotent(key = "k", scope = global)]
async fn nothing() {}

struct AppError;

#[idempotent(key = "k", scope = global)]
async fn no_conversion() -> Result<(), AppError> {
    Ok(())
}

#[idempotent(key = "k", scope = global)]
async fn opaque() -> impl IntoResponse {
    "done"
}

#[idempotent(key = "k", scope = global, client = locks)]
async fn other_client(locks: LockClient) -> Outcome<()> {
    Ok(())
}

fn main() {}
