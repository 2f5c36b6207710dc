//! Idempotency records in SQLite: the conformance suite, what may be wrong with a file, and
//! executions that are completed in the transaction of what they write.

#![allow(clippy::disallowed_methods)]

mod conformance;
mod files;
mod handlers;
mod killed;
mod support;
mod transaction;
