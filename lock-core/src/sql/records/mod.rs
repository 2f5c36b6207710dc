//! Idempotency records in a table of a database.
//!
//! The records of a service that has a database belong where its data is. Then an execution can be
//! completed in the transaction of its own writes
//! ([`Execution::complete_in`](crate::idempotency::Execution::complete_in)): there is no moment at
//! which the effect is there without the record, or the record without the effect.
//!
//! One row per record. A verb reads it, asks the machine of `records/row.rs`, which knows no
//! database, what becomes of it, and writes that by compare-and-swap. No transaction of ours spans
//! two statements.
//!
//! - `dialect`: the statements that a database spells its own way.
//! - `sqlite`, `postgres`, `mysql`: the dialect of each.
//! - `columns`: a record as columns, and which rows are no records.
//! - `verbs`: the statements of a record. `store`: the verbs, for every database.
//! - `within`: a record that is completed in a transaction of the user's.
//! - `sweep`: removing rows whose life is over.
//! - `face`: the records as users see them.

mod columns;
mod dialect;
mod face;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;
mod sweep;
mod verbs;
mod within;

pub use self::dialect::RecordDialect;
pub use self::face::SqlRecords;
pub use self::within::InTransactionError;
pub(crate) use self::within::complete_in;
