//! Distributed locks for async Rust services.
//!
//! Something must run once at a time, across tasks, processes and machines. This crate gives a lock
//! for it. The lock is fair, and is handed on without being freed. Its holders carry fencing
//! tokens. A holder that lost it is told so, no later than its lease ends by its own clock.
//!
//! # Start
//!
//! ```toml
//! [dependencies]
//! lock-core = { version = "0.1", features = ["redis"] }
//! tokio = { version = "1", features = ["full"] }
//! ```
//!
//! ```
//! use std::time::Duration;
//! use lock_core::LockClient;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let locks = LockClient::connect("memory:").await?; // or "redis://127.0.0.1"
//!     let guard = locks.lock("order:42").wait(Duration::from_secs(2)).await?;
//!     println!("write with token {}", guard.token());
//!     guard.release().await?;
//!     Ok(())
//! }
//! ```
//!
//! A client is made once and cloned. [`LockClient::connect`] has the URL of each store.
//!
//! # Which call
//!
//! | you want | call |
//! |---|---|
//! | a mutex over processes | [`LockClient::lock`], then [`LockGuard`] |
//! | work that is stopped when the lock is lost | [`LockBuilder::run`] |
//! | one try, without a wait | [`LockBuilder::try_acquire`] |
//! | many readers or one writer | [`LockBuilder::shared`] |
//! | a semaphore: so many at once | [`LockBuilder::permits`] |
//! | several keys, all or none | [`LockClient::lock_all`] |
//! | one leader of many processes | [`LockClient::election`] |
//! | an `async fn` under a lock | `#[distributed_lock]` |
//! | a lock for a plain thread | [`blocking::wait`] |
//! | a request that runs once per idempotency key | `idempotency`, `#[idempotent]` |
//! | an HTTP route under a lock, or run once per key | the crate `lock-tower` |
//!
//! # Features
//!
//! | feature | | default |
//! |---|---|---|
//! | `macros` | `#[distributed_lock]` | yes |
//! | `axum` | the client from axum's `State`, lock errors as responses | yes |
//! | `http` | `Problem`: what HTTP is told when there was no lock; `axum` has it | yes |
//! | `redis`, `redis-tls` | Redis, Sentinel, Cluster, and quorums of servers (Redlock) | |
//! | `deadpool` | commands through a pool of your own | |
//! | `postgres`, `postgres-tls` | a table of leases in PostgreSQL (Rust 1.94) | |
//! | `mysql`, `mysql-tls` | a table of leases in MySQL or MariaDB (Rust 1.94) | |
//! | `sqlite` | a table of leases in a SQLite file (Rust 1.94) | |
//! | `zookeeper`, `zookeeper-tls` | ZooKeeper, beside Apache Curator | |
//! | `etcd`, `etcd-tls` | etcd, in one line with Go's `concurrency` | |
//! | `idempotency` | one execution per key, its outcome replayed; on by `lock-tower` | |
//! | `idempotent` | `#[idempotent]` | |
//! | `uuid` | `Uuid` as a key | |
//! | `metrics` | counters and histograms by the facade of the crate `metrics` | |
//! | `test-util` | the conformance suite, for authors of backends | |
//!
//! The store in this process, `memory:`, needs no feature. With any of the databases come
//! transactions that are refused once a later holder has written.
//!
//! # What it promises
//!
//! - **One holder per key** while clocks drift less than 1 % over a lease.
//! - **A holder is told** when that fails: [`LockHandle::lost`], by its own clock. One that is cut off
//!   together with a master that was replaced is told when the cut is over. Let the resource refuse a
//!   smaller [`FencingToken`] than it has seen: that stops what a stale holder still writes.
//! - **A free key with a live waiter is granted** by a push, or by the next recheck.
//! - **Waits are bounded** by `wait * (1 + retries)`, or 2 s where `wait` is 0. [`AcquireError`] says
//!   which bound was hit. A candidate of an election waits without one.
//! - **No waiter and no task is left** of a key when its last guard and future are gone. What stays at
//!   a store is on its page.
//!
//! # Where things are
//!
//! Here stands what is typed every day. [`futures`] has the types that are awaited, [`error`] what
//! can go wrong, [`options`] the choices, [`limits`] their bounds, [`view`] what is shown to those
//! who watch a service, [`multi`] what several keys give, [`scope`] what code under a lock is called
//! under, [`key`] what a key may be, and `problem` what HTTP is told. `idempotency` runs things once,
//! `metrics` counts. Each store has a module of its own. A store of yours
//! stands behind the seam in [`backend`].

#![cfg_attr(docsrs, feature(doc_cfg))]
// An instant is added to by `Plus`: clippy.toml says which operators are meant.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod backend;
pub mod blocking;
mod builder;
mod client;
mod connect;
mod election;
mod engine;
pub mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(feature = "sql")]
mod fence;
pub mod futures;
mod ground;
mod handler_ran;
#[cfg(feature = "idempotency")]
pub mod idempotency;
pub mod key;
mod labels;
pub mod limits;
mod lock_name;
mod lockable;
#[cfg(feature = "macros")]
mod macro_support;
pub mod memory;
#[cfg(feature = "metrics")]
pub mod metrics;
mod mode;
pub mod multi;
pub mod options;
#[cfg(feature = "http")]
pub mod problem;
mod proto;
#[doc(alias = "redlock")]
pub mod quorum;
#[cfg(feature = "idempotency")]
mod records;
#[cfg(feature = "redis")]
pub mod redis;
mod rejection;
pub mod scope;
#[cfg(feature = "sql")]
pub mod sql;
mod stores;
#[cfg(feature = "test-util")]
#[allow(clippy::arithmetic_side_effects)]
pub mod test_util;
mod token;
pub mod view;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

pub use builder::LockBuilder;
pub use client::{ClientBuilder, LockClient};
pub use election::Election;
pub use engine::{LockGuard, LockHandle, Term};
pub use error::AcquireError;
pub use key::Key;
pub use mode::Mode;
pub use options::LockOptions;
pub use token::FencingToken;

#[cfg(feature = "macros")]
pub use lock_macros::distributed_lock;
// It is there without its feature, to say that it is missing.
#[cfg(feature = "macros")]
#[cfg_attr(docsrs, doc(cfg(feature = "idempotent")))]
pub use lock_macros::idempotent;
#[cfg(feature = "macros")]
pub use macro_support::FromLockError;

/// For the code that [`macro@distributed_lock`] generates; not for users.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __private {
    pub use crate::macro_support::*;
}
