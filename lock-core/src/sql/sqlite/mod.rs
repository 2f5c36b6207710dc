//! Locks in a SQLite file: for the services of one machine, with nothing to install.
//!
//! - `config`: where the database is, and what may be made there.
//! - `connect`: from a URL to a store.
//! - `backend`: the store for clients.
//! - `link`: its one connection.
//! - `dialect`, `statements`: what SQLite spells its own way.
//! - `trouble`: what its errors mean.
//! - `transactions`: statements over connections that are handed in.

mod backend;
mod config;
pub(super) mod connect;
mod dialect;
mod link;
mod statements;
mod transactions;
mod trouble;

pub use backend::Sqlite;
pub use config::SqliteConfig;
use dialect::SqliteDialect;
