//! The middleware: [`LockLayer`] makes a [`LockService`], whose [`LockFuture`] derives the key,
//! waits for the lock and runs the handler under it.
//!
//! - `layer`: the layer and its options. `config`: the options as its services share them.
//! - `service`, `future`: the service and its future. `waiting`: the wait for the lock.
//! - `held`: the handler under its lock. `hold`: that lock, also of an upgraded connection.
//! - `body`: the body of the response. `refusal`: the refusals, and their words.

mod body;
mod config;
mod future;
mod held;
mod hold;
mod layer;
mod refusal;
mod service;
mod waiting;

pub use body::LockBody;
pub use config::{HoldUntil, OnLost};
pub use future::LockFuture;
pub use hold::UpgradeLock;
pub use layer::{LockLayer, NoKey};
pub use service::LockService;
