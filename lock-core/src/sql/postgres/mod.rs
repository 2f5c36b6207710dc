//! Locks in a PostgreSQL database: for services that have one, on any number of machines.
//!
//! - `config`: the place of the database, and what may be made there.
//! - `connect`: from a URL to a store.
//! - `backend`: the store for clients.
//! - `session`: one connection, as the store needs it.
//! - `link`: its statements over a few of them.
//! - `listen`: hearing from other processes.
//! - `dialect`, `statements`: the statements that PostgreSQL spells its own way.
//! - `prepare`: making and checking the table.
//! - `renewals`: many claims in one statement.
//! - `arg`: the values of a statement, also where nothing can be prepared.
//! - `trouble`: the meaning of its errors.
//! - `transactions`: statements over connections that are handed in.

mod arg;
mod backend;
mod config;
pub(super) mod connect;
mod dialect;
mod link;
mod listen;
mod prepare;
mod renewals;
mod session;
mod statements;
mod transactions;
mod trouble;

pub use backend::Postgres;
pub use config::PostgresConfig;
use dialect::PostgresDialect;
