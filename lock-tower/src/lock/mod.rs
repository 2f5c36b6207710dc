//! The middleware: [`LockLayer`] makes a [`LockService`], whose [`LockFuture`] derives the key,
//! waits for the lock and runs the handler under it.

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
