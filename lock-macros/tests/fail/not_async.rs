#![allow(unused)]

use std::pin::Pin;

use lock_core::idempotency::IdempotencyError;
use lock_core::{AcquireError, distributed_lock, idempotent};

#[distributed_lock(key = "k")]
fn plain() -> Result<(), AcquireError> {
    Ok(())
}

// A future of another form hides where its body is.
#[distributed_lock(key = "k")]
fn future() -> impl Future<Output = Result<(), AcquireError>> {
    async { Ok(()) }
}

// What stands in front of the future would run at the call, without the lock.
#[distributed_lock(key = "k")]
fn in_part() -> Pin<Box<dyn Future<Output = Result<(), AcquireError>> + Send>> {
    charge();
    Box::pin(async move { Ok(()) })
}

#[idempotent(key = "k", scope = global)]
fn in_part_too() -> Pin<Box<dyn Future<Output = Result<(), IdempotencyError>> + Send>> {
    let charged = charge();
    Box::pin(async move { Ok(charged) })
}

fn charge() {}

fn main() {}
