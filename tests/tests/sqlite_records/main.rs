//! Idempotency records in SQLite: the conformance suite, what may be wrong with a file, and
//! executions that are completed in the transaction of what they write.

#![allow(clippy::disallowed_methods)]

mod commits;
mod conformance;
mod disk;
mod files;
mod gate;
mod handlers;
mod killed;
mod lost;
mod support;
mod transaction;
