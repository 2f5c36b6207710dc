//! Idempotency records in SQLite: the conformance suite, what may be wrong with a file, and
//! executions that are completed in the transaction of what they write.

#![allow(clippy::disallowed_methods)]

mod commits;
#[path = "../sql_records/conformance.rs"]
mod conformance;
mod disk;
mod files;
mod gate;
#[path = "../sql_records/handlers.rs"]
mod handlers;
mod killed;
mod lost;
#[path = "../sql_records/payments.rs"]
mod payments;
mod snapshots;
mod support;
#[path = "../sql_records/transaction.rs"]
mod transaction;
