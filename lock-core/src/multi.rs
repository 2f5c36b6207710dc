//! Several keys at once, all or none: what [`LockClient::lock_all`](crate::LockClient::lock_all)
//! gives.
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = lock_core::LockClient::connect("memory:").await?; // or "redis://127.0.0.1"
//! let both = locks.lock_all(["account:2", "account:1"]).wait(Duration::from_secs(2)).await?;
//! for (key, token) in both.keys().zip(both.tokens()) {
//!     println!("write to {key} with token {token}");
//! }
//! assert!(both.token("account:1").is_some());
//! both.release().await?;
//! # Ok(()) }
//! ```
//!
//! - There are 1 to [`KEYS_MAX`](crate::limits::KEYS_MAX) (64) keys. They are taken one after the
//!   other, by the order of the bytes of their encoded form, which is the same in every process, and
//!   each once. So two who want the same keys never wait for each other, in whatever order they name
//!   them.
//! - The options are those of a single key, with the same defaults and bounds: see
//!   [`LockOptions`](crate::LockOptions). Each key has the same, also
//!   [`shared`](crate::LockBuilder::shared) and [`permits`](crate::LockBuilder::permits).
//! - There is **one budget** for all, `wait * (1 + retries)`: each key has what the ones before have
//!   left. A try that cannot have one of them gives up those that it has, and the next one begins
//!   anew with the first.
//! - When it fails, the error says which key it was, and none stays held.
//! - A key that the running code is called under a hold of is re-entered, the others are taken. But
//!   whoever takes further keys under a hold has left the order, so two who do may wait for each
//!   other until their budgets end: take together what is needed together.
//!
//! Several keys are no transaction: each has a fencing token of its own, and each resource checks
//! that of its key.

pub use crate::engine::{KeySet, MultiLockGuard, MultiLockHandle, OneKey};
pub use crate::lockable::{Held, Lockable};
