//! A folder with a database, and its clients.

use std::error::Error;
use std::path::PathBuf;

use lock_core::sql::DatabaseError;
use lock_core::{LockClient, LockOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tempfile::TempDir;
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

/// Why a client is refused at this URL.
pub(crate) async fn refused(url: &str) -> DatabaseError {
    let error = LockClient::connect(url).await.expect_err("there is nothing to connect to");
    database_error(&error)
}

/// What is wrong with the database, somewhere behind an error.
pub(crate) fn database_error(error: &(dyn Error + 'static)) -> DatabaseError {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<DatabaseError>() {
            return found.clone();
        }
        next = error.source();
    }
    panic!("no error of a database: {error:?}")
}

/// One try, which is told what is wrong.
pub(crate) fn once() -> LockOptions {
    LockOptions::new().with_wait(ms(500)).with_lease(ms(30_000))
}
