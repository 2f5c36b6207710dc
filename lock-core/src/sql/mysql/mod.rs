//! Locks in a MySQL or MariaDB database: for services that have one, on any number of machines.
//!
//! - `config`: the place of the database, and what may be made there.
//! - `connect`: from a URL to a store.
//! - `backend`: the store for clients.
//! - `session`: one connection, as the store needs it.
//! - `link`: statements over a few of them.
//! - `dialect`, `statements`: the statements that both spell their own way.
//! - `text`: a statement whose values have numbers.
//! - `short`: the answer of a statement in one number.
//! - `renewals`: many claims in few statements.
//! - `prepare`: making and checking the table.
//! - `trouble`: the meaning of their errors.
//! - `transactions`: statements over connections that are handed in.

mod backend;
mod config;
pub(super) mod connect;
mod dialect;
mod link;
mod prepare;
mod renewals;
mod session;
mod short;
mod statements;
mod text;
mod transactions;
mod trouble;

pub use backend::Mysql;
pub use config::MysqlConfig;
use dialect::MysqlDialect;
#[cfg(feature = "idempotency")]
pub(super) use session::settle;
