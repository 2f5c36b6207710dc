//! What users see.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Pool, Sqlite, SqlitePool};

use super::dialect::RecordDialect;
use super::store::Kept;
use super::sweep::ROWS_MAX;
use crate::backend::{ConnectError, Fault, StoreUrl, UrlError, UrlPart};
use crate::records::{
    BoxFuture, ClaimRecord, Claimed, Fingerprint, Found, Outcome, RecordId, RecordStore,
    RecordTable, Written,
};
use crate::sql::schemes::SQLITE;
use crate::sql::{DatabaseError, TableName};
use crate::token::FencingToken;

/// The name of the table unless another one is given.
const TABLE: &str = "lock_records";

/// How many connections there are at most to a file: one writes at a time, the others read.
const CONNECTIONS_MAX: u32 = 4;

/// Idempotency records in a table of your database, `lock_records`. Clones share their connections.
///
/// | made by | connections | is for |
/// |---|---|---|
/// | [`connect`](Self::connect) | a few of its own | a service that has no pool |
/// | [`beside`](Self::beside) | a few of its own, to the database of your pool | most services that have one |
/// | [`with_pool`](Self::with_pool) | those of your pool | a database in memory, and tests |
///
/// To complete an execution in a transaction of yours, let it be one of the same database: see
/// [`Execution::complete_in`](crate::idempotency::Execution::complete_in).
///
/// A row whose life is over counts for nothing. Such rows are removed by and by while claims are
/// made, at most 128 in one statement, or by [`sweep`](Self::sweep).
///
/// Times are those of the database's clock. In SQLite that is the clock of the machine. A file must
/// be on a disk of this machine, as for every use of SQLite by several processes.
#[derive(Clone)]
pub struct SqlRecords {
    records: Arc<dyn Table>,
}

/// What there is beside the verbs.
trait Table: RecordStore {
    fn migrate(&self) -> BoxFuture<'_, Result<(), Fault>>;
    fn sweep(&self, rows_max: u32) -> BoxFuture<'_, Result<u64, Fault>>;
    fn statements(&self) -> Vec<String>;
}

impl<D: RecordDialect> Table for Arc<Kept<D>> {
    fn migrate(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(self.prepare(true))
    }

    fn sweep(&self, rows_max: u32) -> BoxFuture<'_, Result<u64, Fault>> {
        Box::pin(Kept::sweep(self, rows_max))
    }

    fn statements(&self) -> Vec<String> {
        D::record_table(&self.table)
    }
}

impl SqlRecords {
    /// Opens connections of its own to `sqlite://path[?table=lock_records&create=true]`, and looks
    /// whether the table is there. `create=true` makes a file and a table that are missing.
    /// `sqlite::memory:` is a database of this handle and its clones alone, for tests.
    ///
    /// A completed record survives the loss of power: SQLite is told to wait for the disk
    /// (`synchronous=FULL`). A file that is made here is one with a write-ahead log.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Url`] for a malformed URL. [`ConnectError::Store`] when the file or the table
    /// is missing, or is none of ours; its source is a
    /// [`DatabaseError`](crate::sql::DatabaseError), which says what to do.
    ///
    /// # Cancel safety
    ///
    /// A file or a table may have been made.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        let url = StoreUrl::parse(url, &[SQLITE])?;
        let bad = |reason: String| UrlError::new(UrlPart::Parameters, reason);
        let name = url.param("table").unwrap_or(TABLE);
        let table = TableName::new(name).map_err(|error| bad(error.to_string()))?;
        let file = Some(Path::new(url.path())).filter(|_| url.path() != ":memory:");
        let creates = match url.param("create") {
            None => file.is_none(),
            Some("true") => true,
            Some("false") => false,
            Some(_) => return Err(bad("`create` is `true` or `false`".to_owned()).into()),
        };
        let connected = Self::open(file, table, creates).await;
        connected.map_err(ConnectError::Store)
    }

    async fn open(file: Option<&Path>, table: TableName, creates: bool) -> Result<Self, Fault> {
        let pool = match file {
            None => {
                // One connection for good: with it, the database would go.
                let options = SqliteConnectOptions::new().in_memory(true);
                SqlitePoolOptions::new()
                    .max_connections(1)
                    .idle_timeout(None)
                    .max_lifetime(None)
                    .connect_lazy_with(options)
            }
            Some(file) => own_pool(SqliteConnectOptions::new(), file, creates)?,
        };
        Self::prepared(pool, table, creates).await
    }

    /// Opens connections of its own to the database of this pool, as its options have it, and looks
    /// whether the table is there: a pool that is used up by your transactions does not keep a
    /// request from asking whether it has run.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Store`] when the table is missing ([`statements`](Self::statements) make it),
    /// is none of ours, or when the database is in memory: no other connection sees that.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when it is dropped.
    pub async fn beside(pool: &SqlitePool) -> Result<Self, ConnectError> {
        let options = pool.connect_options();
        let file = options.get_filename().to_owned();
        let name = file.to_string_lossy();
        // As sqlx names those in memory: `file:sqlx-in-memory-0`.
        if name.is_empty() || name.contains(":memory:") || name.starts_with("file:") {
            let what = "the database of this pool is in memory or named by a URI, and no other \
                        connection sees it: use `SqlRecords::with_pool`";
            let error = DatabaseError::Other { what: what.to_owned() };
            return Err(ConnectError::Store(error.into()));
        }
        let pool = own_pool((*options).clone(), &file, false).map_err(ConnectError::Store)?;
        let beside = Self::prepared(pool, TableName::known(TABLE), false).await;
        beside.map_err(ConnectError::Store)
    }

    /// Sends everything through a pool of yours. It should have connections to spare, 2 at least:
    /// while your transactions use up all of them, no request learns whether it has run.
    ///
    /// Nothing is looked at: [`migrate`](Self::migrate) makes the table, or
    /// [`statements`](Self::statements) do.
    #[must_use]
    pub fn with_pool(pool: &SqlitePool) -> Self {
        Self::over::<Sqlite>(pool.clone(), TableName::known(TABLE))
    }

    fn over<D: RecordDialect>(pool: Pool<D>, table: TableName) -> Self {
        Self { records: Arc::new(Arc::new(Kept::new(pool, table))) }
    }

    async fn prepared(pool: SqlitePool, table: TableName, creates: bool) -> Result<Self, Fault> {
        let kept = Arc::new(Kept::new(pool, table));
        kept.prepare(creates).await?;
        Ok(Self { records: Arc::new(kept) })
    }

    /// Makes the table where it is missing.
    ///
    /// # Errors
    ///
    /// A [`Fault`] whose source is a [`DatabaseError`](crate::sql::DatabaseError).
    ///
    /// # Cancel safety
    ///
    /// The table may have been made, or not.
    pub async fn migrate(&self) -> Result<(), Fault> {
        self.records.migrate().await
    }

    /// The statements that make the table, for a tool of yours, each only where it is missing.
    #[must_use]
    pub fn statements(&self) -> Vec<String> {
        self.records.statements()
    }

    /// Removes rows whose life is over, at most 128, and tells how many. Nobody needs to call it
    /// where claims are made. It is for a service that has gone quiet and wants its room back.
    ///
    /// # Errors
    ///
    /// A [`Fault`] where the database could not be asked within 2 s.
    ///
    /// # Cancel safety
    ///
    /// They may have been removed, or not.
    pub async fn sweep(&self) -> Result<u64, Fault> {
        self.records.sweep(ROWS_MAX).await
    }
}

/// A few connections that do not wait by themselves where others write: those who do starve.
fn own_pool(
    options: SqliteConnectOptions,
    file: &Path,
    creates: bool,
) -> Result<SqlitePool, Fault> {
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

impl RecordStore for SqlRecords {
    fn peek(&self, id: RecordId, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Found, Fault>> {
        self.records.peek(id, fingerprint)
    }

    fn claim<'a>(
        &'a self,
        id: RecordId,
        record: &'a ClaimRecord,
    ) -> BoxFuture<'a, Result<Claimed, Fault>> {
        self.records.claim(id, record)
    }

    fn complete<'a>(
        &'a self,
        id: RecordId,
        token: FencingToken,
        outcome: &'a Outcome,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Written, Fault>> {
        self.records.complete(id, token, outcome, ttl)
    }

    fn abort(&self, id: RecordId, token: FencingToken) -> BoxFuture<'_, Result<Written, Fault>> {
        self.records.abort(id, token)
    }

    fn table(&self) -> Option<&RecordTable> {
        self.records.table()
    }
}

impl fmt::Debug for SqlRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqlRecords").field("table", &self.table()).finish_non_exhaustive()
    }
}
