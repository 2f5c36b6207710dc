//! Distributed locks for async Rust services.
//!
//! Something must run once at a time, across tasks, processes and machines. This crate gives a lock
//! for it. The lock is fair, and is handed on without being freed. Its holders carry fencing
//! tokens. A holder that lost it is told so, no later than its lease ends by its own clock.
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = lock_core::LockClient::connect("memory:").await?; // or "redis://127.0.0.1"
//! let guard = locks.lock("order:42").wait(Duration::from_secs(2)).await?;
//! println!("write with token {}", guard.token());
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! Several keys can be taken at once, all or none: [`LockClient::all`]. One process of many can be
//! elected as the leader: [`LockClient::election`].
//!
//! Above the locks stands `idempotency` (feature of that name): a request runs once per key, and
//! those that repeat it are given its outcome.
//!
//! # What it promises, and where
//!
//! 1. **One holder per key** while clocks drift less than 1 % over a lease. The stores see to it
//!    ([`memory`], `redis`, `zookeeper`, `etcd`, `sql`), each behind the seam in [`backend`].
//! 2. **A holder is told** when that fails: `proto/lease.rs` decides by the clock, and
//!    [`LockGuard::lost`] tells. The [`FencingToken`] lets a resource refuse what a stale holder
//!    still writes.
//! 3. **A free key with a live waiter is granted** by a push, or by the next recheck.
//!    `proto/cohort/` has the line of the waiters of one process, the store that of the processes.
//! 4. **Waits are bounded**: `proto/cohort/seats.rs` ends them, `engine/acquire.rs` counts tries.
//! 5. **Nothing is left behind**: `engine/driver.rs` runs every request to its end,
//!    `engine/leave.rs` goes on with what was not answered, `engine/registry.rs` forgets idle
//!    keys.
//! 6. **Fast**: a hand-off inside a process is a short mutex and a wake, without I/O
//!    (`proto/cohort/held.rs`).

// An instant is added to by `Plus`: clippy.toml says which operators are meant.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod backend;
mod builder;
mod client;
mod connect;
mod election;
mod engine;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(feature = "sqlite")]
mod fence;
mod ground;
mod handler_ran;
#[cfg(feature = "idempotency")]
pub mod idempotency;
mod key;
mod labels;
pub mod memory;
#[cfg(feature = "metrics")]
pub mod metrics;
mod mode;
mod multi_builder;
mod options;
#[cfg(feature = "http")]
mod problem;
mod proto;
pub mod quorum;
#[cfg(feature = "idempotency")]
mod records;
#[cfg(feature = "redis")]
pub mod redis;
mod rejection;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod sql;
mod stores;
#[cfg(feature = "test-util")]
#[allow(clippy::arithmetic_side_effects)]
pub mod test_util;
mod token;
mod view;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

pub use backend::{
    Backend, Capabilities, ConnectError, DURATION_MAX, REPLICAS_MAX, REPLICAS_TIMEOUT_MAX, Replicas,
};
pub use builder::LockBuilder;
pub use client::{ClientBuilder, LockClient};
pub use election::{ELECTION_VALUE_BYTES_MAX, Election};
pub use engine::{
    Acquire, Background, Closed, CutWatch, Downgrade, KEYS_MAX, LockGuard, LockHandle, LockScope,
    Lost, MultiAcquire, MultiLockGuard, MultiLockHandle, MultiLost, Observe, RenewalFailing,
    RenewalFailure, RevokeRequested, RunFor, Scoped, Term,
};
pub use error::{
    AcquireError, AlreadyInstalled, BlockedBy, ClosedError, DowngradeError, LossReason, LostError,
    NotReplicatedError, OperatorError, OverloadedError, ReleaseError, RunError, TimeoutError,
    UnavailableError,
};

pub use handler_ran::HandlerRan;
pub use key::{IntoKey, KEY_BYTES_MAX, Key, KeyError};
pub use mode::{Mode, PERMITS_MAX};
pub use multi_builder::MultiLockBuilder;
pub use options::{Fairness, HOLD_LIMIT_MIN, LockOptions, NAME_BYTES_MAX, RETRIES_MAX};
#[cfg(feature = "http")]
pub use problem::Problem;
pub use rejection::Rejection;
pub use token::{FencingToken, TokenBlock};
pub use view::{
    BusyHold, BusyKey, Holder, Inspection, Leader, MemberHealth, MemberState, Quantiles,
    ShutdownReport, Stats, Waiter,
};

#[cfg(feature = "macros")]
mod macro_support;

#[cfg(feature = "macros")]
pub use lock_macros::distributed_lock;
#[cfg(feature = "idempotent")]
pub use lock_macros::idempotent;
#[cfg(feature = "macros")]
pub use macro_support::FromLockError;

/// For the code that [`macro@distributed_lock`] generates; not for users.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __private {
    pub use crate::macro_support::*;
}

/// What a client sends to a Redis server for a free key. Benchmarks tell the engine's share from
/// that of the scripts by it; it is not for users. It is no lock: nobody renews, waits or is told.
#[cfg(all(feature = "bench-util", feature = "redis"))]
#[doc(hidden)]
pub mod __bare {
    pub use crate::redis::{BareClaim, BareSession};
}
