//! Idempotency records in PostgreSQL: the conformance suite, what may be wrong with a table, and
//! executions that are completed in the transaction of what they write. The application has the
//! least rights: those that docs/sql.md names.

#![allow(clippy::disallowed_methods)]

mod conformance;
mod handlers;
mod killed;
mod replies;
mod support;
mod tables;
mod transaction;
