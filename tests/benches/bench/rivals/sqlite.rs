//! The locks that everybody writes first in a SQL database, and the statements that no lock there
//! can do without.

use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, SqliteConnection, SqlitePool};
use tokio::time::sleep;

use super::Rival;

/// How long one who found the row there waits.
const EVERY: Duration = Duration::from_millis(1);

/// How long SQLite itself waits for a busy file.
const PATIENCE: Duration = Duration::from_secs(60);

/// The way in which a rival locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Two updates of one row, whoever else has it.
    TwoUpdates,
    /// A row that there can be one of is inserted, and deleted.
    UniqueRow,
    /// `BEGIN IMMEDIATE`, an update, and the commit when it is given back.
    Immediate,
}

/// One of them, with a pool as a service has it.
#[derive(Clone)]
pub(crate) struct Statements {
    pool: SqlitePool,
    way: Way,
}

impl Statements {
    pub(crate) async fn connect(url: &str, way: Way) -> Self {
        let path = url.strip_prefix("sqlite://").and_then(|rest| rest.split('?').next());
        let options = SqliteConnectOptions::new()
            .filename(path.expect("a URL of the bench"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(PATIENCE);
        let connections = if way == Way::Immediate { 16 } else { 4 };
        let pool = SqlitePoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(PATIENCE)
            // It would ask the connection before each statement whether it is there.
            .test_before_acquire(false)
            .connect_with(options)
            .await
            .expect("a file");
        let table = "CREATE TABLE IF NOT EXISTS rival (name TEXT PRIMARY KEY, n INTEGER NOT NULL)";
        sqlx::query(table).execute(&pool).await.expect("a table");
        Self { pool, way }
    }

    async fn update(&self, key: &str) {
        let add = "INSERT INTO rival VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET n = n + 1";
        sqlx::query(add).bind(key.to_owned()).execute(&self.pool).await.expect("an update");
    }

    async fn insert(&self, key: &str) {
        let insert = "INSERT INTO rival VALUES (?, 1) ON CONFLICT (name) DO NOTHING";
        loop {
            let query = sqlx::query(insert).bind(key.to_owned());
            if query.execute(&self.pool).await.expect("an insert").rows_affected() > 0 {
                return;
            }
            sleep(EVERY).await;
        }
    }

    async fn delete(&self, key: &str) {
        let query = sqlx::query("DELETE FROM rival WHERE name = ?").bind(key.to_owned());
        query.execute(&self.pool).await.expect("a deletion");
    }

    async fn in_transaction<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        let mut connection = self.pool.acquire().await.expect("a connection");
        let connection: &mut SqliteConnection = &mut connection;
        let mut change = connection.begin_with("BEGIN IMMEDIATE").await.expect("a transaction");
        let add = "INSERT INTO rival VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET n = n + 1";
        sqlx::query(add).bind(key.to_owned()).execute(&mut *change).await.expect("an update");
        held().await;
        change.commit().await.expect("a commit");
    }
}

impl Rival for Statements {
    async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        match self.way {
            Way::TwoUpdates => {
                self.update(key).await;
                held().await;
                self.update(key).await;
            }
            Way::UniqueRow => {
                self.insert(key).await;
                held().await;
                self.delete(key).await;
            }
            Way::Immediate => self.in_transaction(key, held).await,
        }
    }
}
