//! A folder with a database, and its clients.

use std::path::PathBuf;

use lock_core::LockClient;
pub(crate) use lock_core::sql::Sqlite as Store;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;
pub(crate) use tests::database::{database_error, found_of_database, once, refused};
pub(crate) use tests::support::*;

/// A folder for a database.
#[derive(Debug)]
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("locks.db")
    }

    /// The URL of a database that is there.
    pub(crate) fn url(&self) -> String {
        format!("sqlite://{}", self.path().display())
    }

    /// The URL of one that is made.
    pub(crate) fn new_url(&self) -> String {
        self.url() + "?create=true"
    }

    pub(crate) async fn client(&self) -> LockClient {
        connect(&self.new_url(), ms(30_000)).await
    }

    pub(crate) async fn client_for(&self, lease_ms: u64) -> LockClient {
        connect(&self.new_url(), ms(lease_ms)).await
    }

    /// A connection of an operator's.
    pub(crate) async fn connection(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.path()).create_if_missing(true);
        options.connect().await.expect("a database")
    }

    pub(crate) async fn execute(&self, statements: &'static str) {
        let mut connection = self.connection().await;
        sqlx::raw_sql(statements).execute(&mut connection).await.expect("good statements");
        connection.close().await.expect("a connection");
    }
}
