//! The face of the records for users.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Pool;

use super::dialect::RecordDialect;
use super::store::Kept;
use super::sweep::ROWS_MAX;
use crate::backend::{ConnectError, Fault, StoreUrl, UrlError, UrlPart};
use crate::records::{
    BoxFuture, ClaimRecord, Claimed, Fingerprint, Found, Outcome, RecordId, RecordStore,
    RecordTable, Written,
};
use crate::sql::TableName;
use crate::sql::schemes::{MARIADB, MYSQL, POSTGRES, SQLITE};
use crate::token::FencingToken;

/// The name of the table unless another one is given.
const TABLE: &str = "lock_records";

/// Idempotency records in a table of your database, `lock_records`. Clones share their connections.
///
/// | made by | connections | is for |
/// |---|---|---|
/// | [`connect`](Self::connect) | a few of its own | a service that has no pool |
/// | [`beside`](Self::beside) | a few of its own, to the database of your pool | most services that have one |
/// | [`with_pool`](Self::with_pool) | those of your pool | a database in memory, and tests |
///
/// Connections of its own go to the database itself, or through a pooler that keeps sessions. One
/// that gives each transaction another connection is refused where it can be seen: unlike the
/// locks, records are asked for by statements that are prepared.
///
/// To complete an execution in a transaction of yours, let it be one of the same database: see
/// [`Execution::complete_in`](crate::idempotency::Execution::complete_in).
///
/// A row whose life is over counts for nothing. Such rows are removed by and by while claims are
/// made, at most 128 in one statement, or by [`sweep`](Self::sweep).
///
/// Times are those of the database's clock. In SQLite that is the clock of the machine. A file must
/// be on a disk of this machine, as for every use of SQLite by several processes. In PostgreSQL,
/// MySQL and MariaDB a completed record is as durable as any commit of that server.
#[derive(Clone)]
pub struct SqlRecords {
    records: Arc<dyn Table>,
}

/// The work on the table, beside the verbs.
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
    /// Opens connections of its own to what a URL names, and looks whether the table is there:
    /// `sqlite://path[?table=lock_records&create=true]`, or `postgres://login@host/database` with
    /// the same, `schema` and `connections` (1 to 64, default 4), or `mysql://login@host/database`
    /// with all of these but `schema`. `create=true` makes a file and a
    /// table that are missing. `sqlite::memory:` is a database of this handle and its clones alone,
    /// for tests.
    ///
    /// A completed record survives the loss of power: SQLite is told to wait for the disk
    /// (`synchronous=FULL`), and `durability=async` is refused. A file that is made here is one
    /// with a write-ahead log.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Url`] for a malformed URL. [`ConnectError::Store`] when the file or the
    /// table is missing, or is none of ours; its source is a
    /// [`DatabaseError`](crate::sql::DatabaseError), which says what to do.
    ///
    /// # Cancel safety
    ///
    /// A file or a table may have been made.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        let (_place, url) = StoreUrl::parse_at(url, &[SQLITE, POSTGRES, MYSQL, MARIADB], &[])?;
        let table = TableName::of(&url, "table")?.unwrap_or(TableName::known(TABLE));
        #[cfg(feature = "postgres")]
        if url.scheme() == POSTGRES.name() {
            let table = match TableName::of(&url, "schema")? {
                Some(schema) => table.within(&schema),
                None => table,
            };
            let pool = super::postgres::pool_of(&url)?;
            return Self::prepared(pool, table, url.flag("create")?.unwrap_or(false)).await;
        }
        #[cfg(feature = "mysql")]
        if [MYSQL.name(), MARIADB.name()].contains(&url.scheme()) {
            let pool = super::mysql::pool_of(&url)?;
            return Self::prepared(pool, table, url.flag("create")?.unwrap_or(false)).await;
        }
        #[cfg(feature = "sqlite")]
        if url.scheme() == SQLITE.name() {
            let (pool, creates) = super::sqlite::pool_of(&url)?;
            return Self::prepared(pool, table, creates).await;
        }
        let what = format!("`{}:` is no database", url.scheme());
        Err(ConnectError::Url(UrlError::new(UrlPart::Scheme, what)))
    }

    /// Opens connections of its own to the database of this pool, as its options have it, and looks
    /// whether the table is there: a pool that is used up by your transactions does not keep a
    /// request from asking whether it has run.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Store`] when the table is missing ([`statements`](Self::statements) make
    /// it), is none of ours, or when the database is in memory: no other connection sees that.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when it is dropped.
    pub async fn beside<D: RecordDialect>(pool: &Pool<D>) -> Result<Self, ConnectError> {
        let pool = D::own_pool(pool).map_err(ConnectError::Store)?;
        Self::prepared(pool, TableName::known(TABLE), false).await
    }

    /// Sends everything through a pool of yours. It should have connections to spare, 2 at least:
    /// while your transactions use up all of them, no request learns whether it has run.
    ///
    /// Nothing is looked at: [`migrate`](Self::migrate) makes the table, or
    /// [`statements`](Self::statements) do.
    #[must_use]
    pub fn with_pool<D: RecordDialect>(pool: &Pool<D>) -> Self {
        Self { records: Arc::new(Arc::new(Kept::new(pool.clone(), TableName::known(TABLE)))) }
    }

    async fn prepared<D: RecordDialect>(
        pool: Pool<D>,
        table: TableName,
        creates: bool,
    ) -> Result<Self, ConnectError> {
        let kept = Arc::new(Kept::new(pool, table));
        kept.prepare(creates).await.map_err(ConnectError::Store)?;
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
