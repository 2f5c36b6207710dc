#![allow(unused)]

use lock_core::idempotency::{Idempotency, IdempotencyError};
use lock_core::idempotent;

type Outcome<T> = Result<T, IdempotencyError>;

#[idempotent(scope = global)]
async fn no_key(id: u64) -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "{id}")]
async fn no_scope(id: u64) -> Outcome<()> {
    Ok(())
}

#[idempotent]
async fn neither() -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "{di}", scope = "tenant:{tenant}")]
async fn unknown_names(id: u64) -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "{a}{b}", scope = "")]
async fn templates(a: u64, b: u64) -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "k", scope = global, lease = "1s")]
async fn unknown_option() -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "k", scope = global, key = "k")]
async fn twice() -> Outcome<()> {
    Ok(())
}

#[idempotent(
    key = "k",
    scope = global,
    ttl = "10ms",
    wait = "25h",
    on_unknown = "maybe",
    fingerprint = (),
    guard = 1
)]
async fn values() -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "k", scope = global, ttl = "367 days")]
async fn too_long() -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "k", scope = global)]
fn not_async() -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "k", scope = global)]
struct NoFunction;

fn main() {}
