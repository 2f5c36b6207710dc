//! Where a SQLite database is, and what may be made there.

use std::fmt;
use std::path::{Path, PathBuf};

use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};

use super::statements;
use crate::backend::{StoreUrl, UrlError};
use crate::sql::schema::{Schema, TableName};

/// A SQLite database for locks, before it is opened.
///
/// ```no_run
/// use lock_core::LockClient;
/// use lock_core::sql::SqliteConfig;
/// use sqlx::SqlitePool;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // The file, its key and its pragmas are those of the pool that the service has.
/// let pool = SqlitePool::connect("sqlite://shop.db").await?;
/// let config = SqliteConfig::of_pool(&pool);
/// config.migrate().await?;
/// let locks = LockClient::with_backend(config.connect().await?);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SqliteConfig {
    pub(super) options: SqliteConnectOptions,
    /// None is a database in this process.
    pub(super) file: Option<PathBuf>,
    pub(super) table: TableName,
    /// A file and tables that are missing are made.
    pub(super) creates: bool,
}

impl fmt::Debug for SqliteConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the options: the pragmas of a pool may have a key in them.
        f.debug_struct("SqliteConfig")
            .field("file", &self.file)
            .field("table", &self.table)
            .field("creates", &self.creates)
            .finish_non_exhaustive()
    }
}

impl SqliteConfig {
    /// A file, or one that is to be made.
    #[must_use]
    pub fn file(path: impl AsRef<Path>) -> Self {
        Self::with(SqliteConnectOptions::new().filename(path.as_ref()))
    }

    /// A database in this process: only the clones of one store share it.
    #[must_use]
    pub fn in_memory() -> Self {
        let options = SqliteConnectOptions::new().in_memory(true);
        Self { creates: true, ..Self::with(options) }
    }

    /// The file that a pool of yours connects to, with its options. Its connections are not used:
    /// an exhausted pool must not stop a renewal. The store makes one of its own.
    #[must_use]
    pub fn of_pool(pool: &SqlitePool) -> Self {
        Self::with(SqliteConnectOptions::clone(&pool.connect_options()))
    }

    fn with(options: SqliteConnectOptions) -> Self {
        let path = options.get_filename().to_path_buf();
        let is_file = path != Path::new(":memory:") && !path.starts_with("file:");
        let is_shared = path.to_string_lossy().starts_with("file:");
        let file = (is_file && !is_shared).then_some(path);
        Self { options, file, table: TableName::default(), creates: false }
    }

    /// Names the table of the leases (default: `lock_leases`).
    #[must_use]
    pub fn table(mut self, table: TableName) -> Self {
        self.table = table;
        self
    }

    /// Whether connecting makes a file and tables that are missing (default: only in memory).
    #[must_use]
    pub fn create(mut self, creates: bool) -> Self {
        self.creates = creates;
        self
    }

    /// The configuration that a URL gives.
    pub(in crate::sql) fn of(url: &StoreUrl) -> Result<Self, UrlError> {
        let base = match url.path() {
            ":memory:" => Self::in_memory(),
            path => Self::file(path),
        };
        let table = TableName::of(url, "table")?.unwrap_or_default();
        let creates = url.flag("create")?.unwrap_or(base.creates);
        Ok(base.table(table).create(creates))
    }

    /// The table and the view that the store needs there.
    #[must_use]
    pub fn schema(&self) -> Schema {
        statements::schema(self.table.clone())
    }

    /// As the store connects.
    pub(super) fn own_options(&self) -> SqliteConnectOptions {
        use sqlx::ConnectOptions as _;
        self.options
            .clone()
            // SQLite's own waiting starves those who wait longest: we ask again ourselves.
            .busy_timeout(std::time::Duration::ZERO)
            // In WAL mode, who loses power may lose the last grants, and loses the holders too.
            .synchronous(SqliteSynchronous::Normal)
            .create_if_missing(self.creates)
            .thread_name(|_| "lock-sqlite".to_owned())
            .disable_statement_logging()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_key_of_an_encrypted_file_is_not_printed() {
        let options = SqliteConnectOptions::new().filename("a").pragma("key", "'secret'");
        let config = SqliteConfig::of_pool(&SqlitePool::connect_lazy_with(options));
        let printed = format!("{config:?}");
        assert!(printed.contains("lock_leases") && !printed.contains("secret"), "{printed}");
    }
}
