//! Run once per key, and remember how it ended.
//!
//! A client that got no answer asks again, and must not pay twice. So each request carries a key of
//! the client's choice. The first one with it runs, and all later ones are given its outcome.
//!
//! *The lock serialises, the record remembers, the fencing token keeps a late finisher out.* What a
//! request does:
//!
//! 1. It looks at the record of its key. If there is an outcome, that is the answer.
//! 2. Otherwise it stands in the lock's line.
//! 3. As holder it claims the record, atomically, under the token of its hold.
//! 4. It runs, and writes the outcome under the same token.
//! 5. It releases the lock. That wakes the next in line, who finds the outcome.
//!
//! An execution whose process died leaves a claim under a smaller token than that of the next
//! holder. So the next holder knows that the outcome is unknown. If the process was not dead but
//! stopped, its outcome comes under that smaller token, and is dropped.
//!
//! From a key to what is to be done is `begin`; `single_flight` is the line of duplicates in this
//! process. `task` is the one task of an execution, which claims, holds the lock, writes the
//! outcome and lets go: the second place of this crate that spawns and sleeps. `rotation` is one
//! execution under two names, for as long as a secret is replaced. `in_transaction` is one that
//! ends with a transaction of the user's: the commit decides, and the task is told or finds out.
//!
//! ```
//! use lock_core::LockClient;
//! use lock_core::idempotency::{Begun, FingerprintBuilder, Idempotency, MemoryRecords, Scope};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let once = Idempotency::new("shop", LockClient::connect("memory:").await?, MemoryRecords::new())
//!     .with_secret("32 random bytes of this service …");
//!
//! let payload = FingerprintBuilder::new().field("POST").field(r#"{"amount":5}"#).finish();
//! for _ in 0..2 {
//!     let answer = match once.begin(&Scope::of("tenant-1"), b"key-of-the-client", payload).await? {
//!         Begun::Run(execution) => {
//!             let answer = bytes::Bytes::from(format!("paid under {}", execution.token()));
//!             execution.complete(answer.clone()).await?;
//!             answer
//!         }
//!         Begun::Replay(answer) => answer,
//!         other => panic!("refuse: {other:?}"),
//!     };
//!     assert!(answer.starts_with(b"paid"));
//! }
//! assert_eq!((once.stats().executed, once.stats().replayed), (1, 1));
//! # Ok(()) }
//! ```
//!
//! # What it promises
//!
//! - **One execution at a time** per key, as far as the lock promises one holder. One that goes on
//!   past its lease is told ([`Execution::lost`]). Resources can refuse its writes by its
//!   [token](Execution::token), and the store refuses its outcome.
//! - **One outcome**: once [`complete`](Execution::complete) has returned `Ok`, every duplicate
//!   within [`record_ttl`](Idempotency::with_record_ttl) is given it.
//! - **Not exactly once**: an execution whose process dies may have done its work and told nobody.
//!   [`OnUnknown`] chooses between running again and refusing.
//! - **Exactly once in one database** (features `sqlite`, `postgres`, `mysql`): with the records in the
//!   database that the work writes, `Execution::complete_in` completes an execution in the
//!   transaction of its work.
//!
//! [`RecordStore`] is the seam to a store of records.

// Files:
//
// - `client`: the handle. `options`: the choices of a service. `stats`: its counters.
// - `service`: the state that all clones of that share.
// - `begin`: from a key to what is to be done (`begun`). `execution`: an execution in hand.
// - `single_flight`: the local line of duplicates.
// - `rotation`: one execution under two names, while a secret is replaced.
// - `task` and `ending`: the one task of an execution. `repeat`: verbs that are asked again.
// - `in_transaction`: executions that are completed in a transaction of the user's (`written`).
// - `tx`: such a transaction, handed to a handler. `tx_axum`: as an argument in axum.
// - `replay`: values of functions, kept and replayed. `value_hash`: whether two are the same.
// - `observe`: spans. `error`, `transaction_error`: the errors. `debug`: outcomes without their payload.

mod begin;
mod begun;
mod client;
mod debug;
mod ending;
mod error;
mod execution;
#[cfg(feature = "sql")]
mod in_transaction;
mod observe;
mod options;
mod repeat;
#[cfg(feature = "idempotent")]
mod replay;
mod rotation;
mod service;
mod single_flight;
mod stats;
mod task;
#[cfg(feature = "sql")]
mod transaction_error;
#[cfg(feature = "sql")]
mod tx;
#[cfg(all(feature = "sql", feature = "axum"))]
mod tx_axum;
#[cfg(feature = "idempotent")]
mod value_hash;
#[cfg(feature = "sql")]
mod written;

pub use crate::records::{
    BoxFuture, ClaimRecord, Claimed, Fingerprint, FingerprintBuilder, Found, MemoryRecords,
    OnUnknown, Outcome, RECORD_TTL_MAX, RECORD_TTL_MIN, RecordId, RecordStore, RecordTable, Scope,
    Written,
};
pub use ::bytes;
pub use begun::Begun;
pub use client::{Idempotency, SECRET_DEFAULT};
pub use error::{BeginError, CompleteError};
pub use execution::Execution;
pub use options::{
    BeginRejection, Duplicates, IDEMPOTENCY_KEY_BYTES_MAX, SCOPE_BYTES_MAX, SECRET_BYTES_MIN,
    SERVICE_BYTES_MAX,
};
#[cfg(feature = "idempotent")]
pub use replay::{IdempotencyError, Keep, Replayable};
pub use stats::IdempotencyStats;
#[cfg(feature = "sql")]
pub use transaction_error::{CommitError, CompleteInError, TxError};
#[cfg(feature = "sql")]
pub use tx::{Tx, TxSeat};
