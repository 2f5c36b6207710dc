//! Locks in a database of yours: a service that has one needs no other server for its locks.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Once, as a step of your deployment.
//! lock_core::sql::migrate("sqlite://shop.db").await?;
//! // In each process of the service.
//! let locks = lock_core::LockClient::connect("sqlite://shop.db").await?;
//! let guard = locks.lock("order:42").await?;
//! # Ok(()) }
//! ```
//!
//! One row per key holds the lock's whole state. Each verb of a claim is one statement that commits
//! by itself. A change that concerns several claims (join the line, hand over, skip the dead,
//! several holders) is computed by the machine that `memory` uses (`backend::register`). It is
//! written by compare-and-swap on the row's `version`, which each change moves. No transaction
//! spans a round trip, so a process that stops between two statements holds up nobody.
//!
//! Four choices that a change must keep:
//!
//! - *Every* change of a row moves its `version`, a renewal too. So a compare-and-swap that takes
//!   the key from an expired holder cannot take it from one that has just renewed. A renewal that
//!   meets a waiter's look costs that waiter one reading of the row.
//! - A statement is read to its last row. `fetch_optional` of sqlx resets it after the first, and
//!   what the commit says then is lost: a grant would be told that a full disk took back.
//! - A new row begins with the time as its version, so one that was deleted and made again is never
//!   taken for itself.
//! - The file of the URL's name is compared with the one that is open before each statement: one
//!   that is deleted goes on to be served to whoever has it open.
//!
//! A database is a `dialect`: the statements that it spells its own way. All else is the same for
//! all:
//!
//! - `row`: the lease row, and what it says.
//! - `schema`: the tables, and whether those that are there will do. `migrate`: making them.
//! - `store`, `claim`: the verbs. `follower`: those of one who follows an election.
//! - `turns`: the turn of a key's register. `together`: turns of a key that go together, as a
//!   withdrawal and the next attempt.
//! - `backend`: their face for clients.
//! - `changes`, `news`: the listeners to changed rows, and when other processes have to be told.
//! - `fault`: errors of a database, and what to do.
//! - `schemes`, `driver`: databases in the table of stores that URLs can name.
//! - `sqlite`: SQLite's dialect, its file and its connection.
//! - `statements`, `read`: the texts of the statements, and their answers.
//! - `runs`: statements over a connection that is handed in.
//! - `fence`: the check in the transaction that writes, for locks of any store.
//! - `records`: the records of the idempotency engine.
//! - `trouble`: the kinds of a database's errors.
//! - `errands`: requests, and who polls them.
//! - `lane`: the purpose of a request, as renewals have a connection of their own.
//! - `remote`: databases on a server: connections of the store's own, and statements over them.
//! - `postgres`: PostgreSQL's dialect, its connections and its push.
//! - `mysql`: the dialect of MySQL and MariaDB.

// What all of them share is more than one alone needs.
#![cfg_attr(
    not(all(feature = "sqlite", feature = "postgres", feature = "mysql")),
    allow(unused, unreachable_code)
)]

mod backend;
mod changes;
mod claim;
mod dialect;
pub(crate) mod driver;
mod errands;
mod fault;
mod fence;
mod follower;
mod lane;
mod migrate;
#[cfg(feature = "mysql")]
mod mysql;
mod news;
#[cfg(feature = "postgres")]
mod postgres;
mod read;
#[cfg(feature = "idempotency")]
mod records;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod remote;
mod row;
mod runs;
mod schema;
mod schemes;
#[cfg(feature = "sqlite")]
mod sqlite;
mod statements;
mod store;
#[cfg(test)]
mod tests;
mod together;
mod trouble;
mod turns;

// Callers hand in its pools, connections and transactions.
pub use ::sqlx;
pub use fault::DatabaseError;
pub use fence::{FenceDialect, FenceError, Fences};
pub use migrate::{migrate, schema};
#[cfg(feature = "mysql")]
pub use mysql::{Mysql, MysqlConfig};
#[cfg(feature = "postgres")]
pub use postgres::{Postgres, PostgresConfig};
#[cfg(feature = "idempotency")]
pub(crate) use records::complete_in;
#[cfg(feature = "idempotency")]
pub use records::{InTransactionError, RecordDialect, SqlRecords};
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub use remote::Durability;
pub use schema::{Schema, TableName};
#[cfg(feature = "sqlite")]
pub use sqlite::{Sqlite, SqliteConfig};
use trouble::Trouble;
