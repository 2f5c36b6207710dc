//! Making the tables, and showing how.

use super::schema::Schema;
use super::schemes::SQLITE;
use super::sqlite::SqliteConfig;
use crate::backend::{ConnectError, StoreUrl};

/// Makes what the store at `url` needs and does not find: the file, the table, the view. What is
/// there stays as it is, so it can be called at each start.
///
/// A file that is new is in WAL mode, in which readers and the writer do not wait for each other.
/// One that is there keeps its mode.
///
/// # Errors
///
/// As [`LockClient::connect`](crate::LockClient::connect): also where a table of that name is there
/// and has another shape.
///
/// # Cancel safety
///
/// Each statement is made as a whole or not at all; call it again.
pub async fn migrate(url: &str) -> Result<(), ConnectError> {
    config(url)?.migrate().await
}

/// What the store at `url` needs, to be shown or made by a tool of yours: `println!("{schema}")` is
/// a script. Nothing is opened.
///
/// # Errors
///
/// [`ConnectError::Url`] for a URL of no database.
pub fn schema(url: &str) -> Result<Schema, ConnectError> {
    Ok(config(url)?.schema())
}

fn config(url: &str) -> Result<SqliteConfig, ConnectError> {
    Ok(SqliteConfig::of(&StoreUrl::parse(url, &[SQLITE])?)?)
}
