//! What a function under `#[distributed_lock]` does, against the memory backend.
//!
//! Time is paused where it matters: a wait of two seconds passes at once when everybody waits.

#![allow(clippy::disallowed_methods)] // the clock is paused

mod arguments;
mod axum;
mod blocking;
mod client;
mod exclusion;
mod failure;
mod idempotent;
mod idempotent_cut;
mod keys;
mod lost;
mod names;
mod sharing;
mod traits;

use lock_core::{Key, LockClient, LockGuard};

/// Takes `key` at once, as the holder that a test is about.
async fn holder(locks: &LockClient, key: &str) -> LockGuard {
    let guard = locks.lock(key).try_acquire().await.expect("memory is there");
    guard.unwrap_or_else(|| panic!("`{key}` is held already"))
}

/// Whether somebody holds `key`.
async fn is_held(locks: &LockClient, key: &str) -> bool {
    locks.lock(Key::new(key)).try_acquire().await.expect("memory is there").is_none()
}
