//! Idempotency records in PostgreSQL: the conformance suite, what may be wrong with a table, and
//! executions that are completed in the transaction of what they write. The application has the
//! least rights: those that docs/sql.md names.

#![allow(clippy::disallowed_methods)]

#[path = "../sql_records/conformance.rs"]
mod conformance;
#[path = "../sql_records/handlers.rs"]
mod handlers;
mod killed;
#[path = "../sql_records/payments.rs"]
mod payments;
mod replies;
mod snapshots;
mod support;
mod tables;
#[path = "../sql_records/transaction.rs"]
mod transaction;
