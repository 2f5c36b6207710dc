//! Executions that are completed in a transaction of the database that keeps their records.
//!
//! An effect and its record are two writes, and a process may die between them. In one transaction
//! they are one: both are there, or neither is.
//!
//! - `complete`: completing, committing, and what became of a commit that nobody answered.
//! - `tx`: a transaction that is handed to a handler, and ends with its execution.
//! - `error`: what can go wrong.

#[cfg(feature = "axum")]
mod axum;
mod complete;
mod error;
mod tx;

pub(super) use self::complete::Place;
pub use self::error::{CommitError, CompleteInError, TxError};
pub use self::tx::{Tx, TxSeat};
