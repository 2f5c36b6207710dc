//! SQLite's dialect of a record.

use std::path::Path;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Sqlite, SqlitePool, Transaction};

use super::dialect::{CONNECTIONS_MAX, Passes, RecordDialect};
use crate::backend::{ConnectError, Fault, StoreUrl};
use crate::sql::{DatabaseError, TableName, Trouble};

/// How long the messages of errors say that it was asked.
const ASKED_FOR: Duration = super::store::REQUEST_WITHIN;

impl RecordDialect for Sqlite {
    /// One and the same throughout a statement. `unixepoch('subsec')` would want a SQLite of 2023.
    const NOW: &'static str = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)";

    fn record_table(table: &TableName) -> Vec<String> {
        // With row ids, unlike the small tables: a payload may be large, and without them a search
        // would go through those of other rows.
        let records = format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n  \
             id BLOB NOT NULL PRIMARY KEY,\n  \
             layout INTEGER NOT NULL,\n  \
             version INTEGER NOT NULL,\n  \
             state TEXT NOT NULL,\n  \
             token INTEGER NOT NULL,\n  \
             barred INTEGER,\n  \
             since INTEGER NOT NULL,\n  \
             until INTEGER NOT NULL,\n  \
             back_token INTEGER,\n  \
             back_first INTEGER,\n  \
             back_since INTEGER,\n  \
             back_until INTEGER,\n  \
             fingerprint BLOB NOT NULL,\n  \
             payload_bytes INTEGER,\n  \
             payload BLOB\n\
             ) STRICT"
        );
        let ends = format!("CREATE INDEX IF NOT EXISTS {table}_until ON {table} (until)");
        vec![records, ends]
    }

    fn sweep_records(table: &TableName) -> String {
        let now = Self::NOW;
        format!(
            "DELETE FROM {table} WHERE rowid IN \
             (SELECT rowid FROM {table} WHERE until <= {now} ORDER BY until LIMIT ?)"
        )
    }

    fn given_up(connection: PoolConnection<Self>) {
        // It comes back as soon as the statement has ended. A database in memory would be gone.
        drop(connection);
    }

    async fn begin(pool: &SqlitePool) -> Result<Transaction<'static, Self>, sqlx::Error> {
        // One that began with a read would fail where others write, instead of waiting for them. It is
        // counted where SQLite runs.
        pool.begin_with("BEGIN IMMEDIATE").await
    }

    fn own_pool(pool: &SqlitePool) -> Result<SqlitePool, Fault> {
        let options = pool.connect_options();
        let file = options.get_filename().to_owned();
        let name = file.to_string_lossy();
        // As sqlx names those in memory: `file:sqlx-in-memory-0`.
        if name.is_empty() || name.contains(":memory:") || name.starts_with("file:") {
            let what = "the database of this pool is in memory or named by a URI, and no other \
                        connection sees it: use `SqlRecords::with_pool`";
            return Err(DatabaseError::Other { what: what.to_owned() }.into());
        }
        on_file((*options).clone(), &file, false)
    }

    fn fault_of(pool: &SqlitePool, table: &TableName, error: sqlx::Error) -> (Fault, Passes) {
        let options = pool.connect_options();
        let trouble = Trouble::of_sqlite(&error);
        let file = options.get_filename();
        let busy = || DatabaseError::Busy { path: file.to_owned(), waited: ASKED_FOR };
        let error = trouble.meaning(file, table, &error).unwrap_or_else(busy);
        let passes = if trouble == Trouble::Busy { Passes::Soon } else { Passes::Nowhere };
        (error.into(), passes)
    }
}

/// A pool for the file or the database in this process that a URL names, and whether tables that
/// are missing are to be made.
pub(super) fn pool_of(url: &StoreUrl) -> Result<(SqlitePool, bool), ConnectError> {
    let file = Some(Path::new(url.path())).filter(|_| url.path() != ":memory:");
    let creates = url.flag("create")?.unwrap_or(file.is_none());
    let Some(file) = file else {
        // One connection for good: with it, the database would go.
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(SqliteConnectOptions::new().in_memory(true));
        return Ok((pool, creates));
    };
    let pool = on_file(SqliteConnectOptions::new(), file, creates).map_err(ConnectError::Store)?;
    Ok((pool, creates))
}

/// A few connections that do not wait by themselves where others write: those who do starve.
fn on_file(options: SqliteConnectOptions, file: &Path, creates: bool) -> Result<SqlitePool, Fault> {
    let path = file.to_owned();
    if file.is_dir() {
        return Err(DatabaseError::Folder { path }.into());
    }
    let is_new = !file.exists();
    if is_new && !creates {
        return Err(DatabaseError::FileMissing { path }.into());
    }
    let mut options = options
        .filename(file)
        .create_if_missing(creates)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::ZERO);
    if is_new {
        options = options.journal_mode(SqliteJournalMode::Wal);
    }
    let pool = SqlitePoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false);
    Ok(pool.connect_lazy_with(options))
}

#[cfg(test)]
mod tests {
    use sqlx::AssertSqlSafe;

    use super::*;
    use crate::records::{ClaimRecord, Fingerprint, OnUnknown, RecordId, Row, row};
    use crate::sql::records::dialect::Version;
    use crate::sql::records::verbs::{read, swap};
    use crate::token::FencingToken;

    #[tokio::test]
    async fn a_record_that_anybody_has_changed_is_not_swapped() {
        let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await;
        let pool = pool.unwrap();
        let (table, id) = (TableName::known("lock_records"), RecordId::from_bytes([1; 32]));
        for statement in Sqlite::record_table(&table) {
            sqlx::query(AssertSqlSafe(statement)).execute(&pool).await.unwrap();
        }
        let claim = ClaimRecord {
            fingerprint: Fingerprint::new([1; 32]),
            token: FencingToken::new(7),
            ttl: Duration::from_secs(60),
            on_unknown: OnUnknown::Reexecute,
        };
        let mut connection = pool.acquire().await.unwrap();
        let now = read::<Sqlite>(&mut connection, &table, id, "").await.unwrap().now;
        let row = row::claim(None, &claim, now).1.unwrap();
        assert!(swap::<Sqlite>(&mut connection, &table, id, None, &row).await.unwrap());
        // Nor is one made anew where one is.
        assert!(!swap::<Sqlite>(&mut connection, &table, id, None, &row).await.unwrap());
        // By each of these alone, as a row that was removed and made anew has the same version.
        for change in ["version = version + 1", "token = token + 1", "until = until + 1"] {
            let (seen, row): (Version, Row) = {
                let seen = read::<Sqlite>(&mut connection, &table, id, "").await.unwrap();
                let (version, row) = seen.row.unwrap();
                (version, row.unwrap())
            };
            let update = AssertSqlSafe(format!("UPDATE {table} SET {change}"));
            sqlx::query(update).execute(&mut *connection).await.unwrap();
            let swapped = swap::<Sqlite>(&mut connection, &table, id, Some(seen), &row).await;
            assert!(!swapped.unwrap(), "{change}");
        }
    }
}
