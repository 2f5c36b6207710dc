//! The one connection of a store: opened, asked again while others have the file, opened anew where
//! the file is another.
//!
//! SQLite serves one writer at a time, so more connections would only stand in each other's way. It
//! is used by requests that run to their end, on the home runtime or by one who is alone
//! (`errands`).
//!
//! A file that was deleted or replaced goes on to be served to whoever has it open: two processes
//! would each have a file of their own, and a key two holders. So before each statement the file of
//! that name is compared with the one that is open.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _};
use tokio::sync::Mutex;

use super::config::SqliteConfig;
use super::statements::{self, COLUMNS};
use super::trouble::ends_the_connection;
use crate::backend::Fault;
use crate::backend::io::Home;
use crate::ground::{Plus as _, clock};
use crate::sql::fault::DatabaseError;
use crate::sql::schema::{Column, Schema};
use crate::sql::trouble::Trouble;

/// So many times a busy file is asked again at once: most writers are done by then.
const TRIES_AT_ONCE: u32 = 2;

/// The pauses after that.
const BUSY_MIN: Duration = Duration::from_micros(100);
const BUSY_MAX: Duration = Duration::from_millis(1);

/// The connection of a store.
#[derive(Debug)]
pub(in crate::sql) struct Link {
    config: SqliteConfig,
    schema: Schema,
    home: Arc<Home>,
    open: Mutex<Option<Open>>,
    requests: AtomicU64,
}

#[derive(Debug)]
struct Open {
    connection: SqliteConnection,
    file: Option<FileId>,
}

impl Link {
    pub(super) fn new(config: SqliteConfig, home: Arc<Home>) -> Self {
        let schema = config.schema();
        Self { config, schema, home, open: Mutex::default(), requests: AtomicU64::new(0) }
    }

    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Whether nobody but this connection can see the database.
    pub(super) fn is_private(&self) -> bool {
        self.config.options.get_filename() == Path::new(":memory:")
    }

    /// Opens it, and sees whether it can be written. (`BEGIN IMMEDIATE` does not tell: it is a
    /// plain `BEGIN` where nothing can be written.)
    pub(super) async fn check(&self, by: Instant) -> Result<(), Fault> {
        let table = self.schema.leases();
        let nothing: Arc<str> =
            format!("UPDATE {table} SET version = version WHERE name IS NULL").into();
        let done = self.run(by, |connection| {
            let query = sqlx::query(AssertSqlSafe(nothing.clone()));
            Box::pin(async move { query.execute(connection).await.map(drop) })
        });
        done.await
    }

    /// Has the connection do something: one statement, or a transaction that it ends itself. It is
    /// done again while others have the file, until `by`. To be polled to its end, in any runtime.
    pub(in crate::sql) async fn run<T>(
        &self,
        by: Instant,
        work: impl for<'c> Fn(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>
        + Send
        + Sync,
    ) -> Result<T, Fault> {
        let (begun, mut tries) = (clock::now(), 0);
        loop {
            let mut open = match self.open.try_lock() {
                Ok(open) => open,
                Err(_) => match self.home.timeout_at(by, self.open.lock()).await {
                    Ok(open) => open,
                    Err(_) => {
                        let what = "the request before it has not ended".to_owned();
                        return Err(Fault::from(DatabaseError::Other { what }).unsent());
                    }
                },
            };
            self.requests.fetch_add(1, Ordering::Relaxed);
            let answer = self.serve(&mut open, by, &work).await;
            drop(open);
            match answer {
                Ok(answer) => return Ok(answer),
                Err(Unserved::Known(error)) => return Err(error.into()),
                Err(Unserved::Busy) => {}
            }
            tries += 1;
            let share = f64::from(clock::random_bits()) / f64::from(u32::MAX);
            let pause = BUSY_MIN + (BUSY_MAX - BUSY_MIN).mul_f64(share);
            let next = clock::now().plus(pause);
            if next >= by {
                return Err(self.busy(begun).unsent());
            }
            match tries <= TRIES_AT_ONCE {
                true => tokio::task::yield_now().await,
                false => self.home.sleep_until(next).await,
            }
        }
    }

    fn busy(&self, since: Instant) -> Fault {
        let waited = clock::now().saturating_duration_since(since);
        let path = self.config.options.get_filename().to_path_buf();
        DatabaseError::Busy { path, waited }.into()
    }

    async fn serve<T>(
        &self,
        open: &mut Option<Open>,
        by: Instant,
        work: &(
             impl for<'c> Fn(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>
             + Send
             + Sync
         ),
    ) -> Result<T, Unserved> {
        let path = self.config.options.get_filename();
        let file = self.config.file.as_deref().and_then(FileId::of);
        if open.as_ref().is_some_and(|open| open.file != file) {
            *open = None;
        }
        let this = match open {
            Some(open) => open,
            None => open.insert(self.open().await?),
        };
        if clock::now() >= by {
            // The task that polls this may have stood still, and nothing may take effect so late.
            return Err(Unserved::Busy);
        }
        let answer = work(&mut this.connection).await;
        answer.map_err(|error| {
            if ends_the_connection(&error) && !self.is_private() {
                *open = None;
            }
            self.unserved(&error, path)
        })
    }

    async fn open(&self) -> Result<Open, Unserved> {
        let config = &self.config;
        let path = config.options.get_filename();
        let known = |error| Err(Unserved::Known(error));
        if let Some(file) = &config.file {
            if file.is_dir() {
                return known(DatabaseError::Folder { path: file.clone() });
            }
            if !config.creates && !file.exists() {
                return known(DatabaseError::FileMissing { path: file.clone() });
            }
        }
        let is_new = config.file.as_deref().is_some_and(|file| !file.exists());
        let trouble = |error| self.unserved(&error, path);
        let file = config.file.as_deref().and_then(|file| FileId::of_new(file, is_new));
        let mut connection = config.own_options().connect().await.map_err(trouble)?;
        #[cfg(test)]
        tests::while_it_is_opened();
        // Another may have its name since. A file that is open is not taken for that one.
        if config.file.as_deref().and_then(FileId::of) != file {
            return Err(Unserved::Busy);
        }
        let found = self.columns(&mut connection).await.map_err(trouble)?;
        // Nothing is made beside a table that is somebody else's.
        if config.creates && (found.is_empty() || self.schema.check(&found, &COLUMNS).is_ok()) {
            self.make(&mut connection, is_new).await.map_err(trouble)?;
        }
        let found = self.columns(&mut connection).await.map_err(trouble)?;
        self.schema.check(&found, &COLUMNS).map_err(Unserved::Known)?;
        Ok(Open { connection, file })
    }

    fn unserved(&self, error: &sqlx::Error, file: &Path) -> Unserved {
        let known = Trouble::of_sqlite(error).meaning(file, self.schema.leases(), error);
        known.map_or(Unserved::Busy, Unserved::Known)
    }

    async fn columns(&self, connection: &mut SqliteConnection) -> Result<Vec<Column>, sqlx::Error> {
        let wanted = AssertSqlSafe(statements::columns(&self.schema));
        let rows = sqlx::query(wanted).fetch_all(connection).await?;
        let column = |row: &SqliteRow| {
            let is_key = row.try_get::<i64, _>(2)? != 0;
            Ok(Column { name: row.try_get(0)?, kind: row.try_get(1)?, is_key })
        };
        rows.iter().map(column).collect()
    }

    async fn make(
        &self,
        connection: &mut SqliteConnection,
        is_new: bool,
    ) -> Result<(), sqlx::Error> {
        if is_new {
            sqlx::raw_sql("PRAGMA journal_mode = WAL").execute(&mut *connection).await?;
        }
        for statement in self.schema.statements() {
            let statement = AssertSqlSafe(statement.clone());
            sqlx::raw_sql(statement).execute(&mut *connection).await?;
        }
        Ok(())
    }
}

/// The reason why a statement was not served.
#[derive(Debug)]
enum Unserved {
    /// Another connection has the file just now. Nothing was done.
    Busy,
    Known(DatabaseError),
}

/// The identity of the file that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// That of a file which is made if it `is_new`: it has an identity before it is opened.
    fn of_new(path: &Path, is_new: bool) -> Option<Self> {
        if is_new {
            // An error is that of whoever opens it then.
            drop(OpenOptions::new().create(true).append(true).open(path));
        }
        Self::of(path)
    }

    #[cfg(unix)]
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let found = std::fs::metadata(path).ok()?;
        Some(Self { device: found.dev(), inode: found.ino() })
    }

    /// A file that is open cannot be replaced here.
    #[cfg(not(unix))]
    fn of(_: &Path) -> Option<Self> {
        Some(Self { device: 0, inode: 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;

    use super::*;
    use crate::backend::ClaimId;

    thread_local! {
        /// Done once when a file was opened, before its name is looked at again.
        static MEANWHILE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    }

    pub(super) fn while_it_is_opened() {
        if let Some(done) = MEANWHILE.with_borrow_mut(Option::take) {
            done();
        }
    }

    /// Else this process would have the one for ever, and all others the other.
    #[tokio::test]
    async fn a_file_that_is_replaced_while_it_is_opened_is_not_taken_for_the_other() {
        let folder = std::env::temp_dir().join(format!("lock-core-{}", ClaimId::random()));
        fs::create_dir(&folder).unwrap();
        let (path, other) = (folder.join("locks.db"), folder.join("other.db"));
        let link = Link::new(SqliteConfig::file(&path).create(true), Home::shared().unwrap());
        for is_new in [true, false] {
            assert_eq!(path.exists(), !is_new);
            fs::write(&other, "").unwrap();
            let names = (other.clone(), path.clone());
            MEANWHILE.set(Some(Box::new(move || fs::rename(names.0, names.1).unwrap())));
            assert!(matches!(link.open().await, Err(Unserved::Busy)));
            let open = link.open().await.expect("it is found as it is");
            assert!(open.file.is_some() && open.file == FileId::of(&path));
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
