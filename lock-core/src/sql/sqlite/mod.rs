//! Locks in a SQLite file: for the services of one machine, with nothing to install.
//!
//! - `config`: the place of the database, and what may be made there.
//! - `connect`: from a URL to a store.
//! - `backend`: the store for clients.
//! - `link`: its one connection.
//! - `dialect`, `statements`: the statements that SQLite spells its own way.
//! - `trouble`: the kinds of its errors, and their meaning.
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
