//! SQLite's dialect.

pub(super) mod connect;
mod target;
