//! The lock on three ZooKeeper servers that form a quorum, and what is done to them.
//!
//! The invariants V1 to V8 are those of `tests/faults/main.rs`.

#![allow(clippy::disallowed_methods)]

mod conformance;
mod cut;
mod leader;
mod scenes;
mod tokens;

use std::time::Duration;

use lock_core::{LockClient, LockOptions};

/// A client whose acquires wait long enough for any fault here.
async fn connect(url: &str) -> LockClient {
    let options = LockOptions::new().with_wait(Duration::from_secs(60));
    LockClient::builder(url).defaults(options).connect().await.expect("a client")
}
