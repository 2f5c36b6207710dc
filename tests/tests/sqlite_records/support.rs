//! Helpers that the tests of this binary share.

use std::path::PathBuf;
use std::time::Duration;

use lock_core::LockClient;
use lock_core::idempotency::{Idempotency, RecordId};
use lock_core::sql::SqlRecords;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Row as _, Sqlite, SqlitePool, Transaction};
use tempfile::TempDir;

/// The database that the application keeps its tables in.
pub(crate) type Db = Sqlite;

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

/// A shop with one account, whose records are in the same file.
#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) file: File,
    pub(crate) pool: SqlitePool,
    pub(crate) locks: LockClient,
}

impl Shop {
    pub(crate) async fn new() -> Self {
        let file = File::new();
        drop(file.records().await);
        let pool = file.pool().await;
        Self::over(file, pool).await
    }

    pub(crate) async fn over(file: File, pool: SqlitePool) -> Self {
        for sql in [
            "CREATE TABLE payments (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)",
            "CREATE TABLE parents (id INTEGER PRIMARY KEY)",
            "CREATE TABLE children (parent INTEGER NOT NULL REFERENCES parents (id)
             DEFERRABLE INITIALLY DEFERRED)",
        ] {
            sqlx::query(sql).execute(&pool).await.expect("a table");
        }
        Self { file, pool, locks: LockClient::memory() }
    }

    pub(crate) async fn without_records() -> Self {
        let file = File::new();
        let pool = file.pool().await;
        Self::over(file, pool).await
    }

    /// Records with connections of their own.
    pub(crate) async fn records(&self) -> SqlRecords {
        self.file.records().await
    }

    pub(crate) async fn process(&self) -> Idempotency {
        self.process_with(&self.locks).await
    }

    pub(crate) async fn process_with(&self, locks: &LockClient) -> Idempotency {
        self.file.process(locks).await
    }

    pub(crate) async fn begin(&self) -> Transaction<'static, Db> {
        self.pool.begin().await.expect("a transaction")
    }

    pub(crate) async fn payments(&self) -> i64 {
        let count = sqlx::query_scalar("SELECT count(*) FROM payments");
        count.fetch_one(&self.pool).await.expect("a table")
    }
}

/// The condition for a row, given the id.
pub(crate) const WHERE_ID: &str = "WHERE id = ?";

/// Each row that there is, and its state.
pub(crate) const LEFT: &str = "SELECT lower(hex(id)) || ' ' || state FROM lock_records";

/// These bytes, as they are written in a statement.
pub(crate) fn bytes(hex: &str) -> String {
    format!("x'{hex}'")
}

/// All that a row says.
pub(crate) async fn dumped(pool: &SqlitePool, id: RecordId) -> Vec<u8> {
    let row = sqlx::query("SELECT * FROM lock_records WHERE id = ?").bind(id.as_bytes().to_vec());
    let row = row.fetch_one(pool).await.expect("a row");
    let column = |n| row.try_get_unchecked::<Option<Vec<u8>>, _>(n).expect("bytes of any type");
    format!("{:?}", (0..row.len()).map(column).collect::<Vec<_>>()).into_bytes()
}
