//! What the tests of this binary share.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use lock_core::LockClient;
use lock_core::idempotency::{BeginError, Begun, Execution, Fingerprint, Idempotency, Scope};
use lock_core::sql::SqlRecords;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use tempfile::TempDir;

/// A file of an application, in a folder that goes with it.
#[derive(Debug)]
pub(crate) struct File {
    folder: TempDir,
}

impl File {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().expect("a folder") }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    /// Makes the file and the table.
    pub(crate) fn url(&self) -> String {
        format!("sqlite://{}?create=true", self.path().display())
    }

    /// The pool of the application, which waits where others write.
    pub(crate) async fn pool(&self) -> SqlitePool {
        pool(self.path()).await
    }

    /// Records with connections of their own.
    pub(crate) async fn records(&self) -> SqlRecords {
        SqlRecords::connect(&self.url()).await.expect("a file")
    }

    /// One process: it has locks in memory, which the others share.
    pub(crate) async fn process(&self, locks: &LockClient) -> Idempotency {
        let records = self.records().await;
        Idempotency::new("tests", locks.clone(), records).with_secret("the secret of these tests")
    }
}

pub(crate) async fn pool(path: PathBuf) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(20));
    let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await;
    pool.expect("a database")
}

pub(crate) async fn begin(once: &Idempotency, key: &str) -> Result<Begun, BeginError> {
    once.begin(&Scope::of("tests"), key.as_bytes(), Fingerprint::new([1; 32])).await
}

/// Begins what must run.
pub(crate) async fn run(once: &Idempotency, key: &str) -> Execution {
    match begin(once, key).await {
        Ok(Begun::Run(execution)) => execution,
        other => panic!("{other:?} is no run"),
    }
}

/// Asks for what must be there.
pub(crate) async fn replay(once: &Idempotency, key: &str) -> Bytes {
    match begin(once, key).await {
        Ok(Begun::Replay(payload)) => payload,
        other => panic!("{other:?} is no replay"),
    }
}
