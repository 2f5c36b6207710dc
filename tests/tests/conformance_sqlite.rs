//! The conformance suite over SQLite, in real time: a connection for each process to one file, and a
//! database in this process.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lock_core::Mode;
use lock_core::sql::{Sqlite, SqliteConfig};
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};
use sqlx::{ConnectOptions, Row};
use tempfile::TempDir;

#[derive(Debug)]
struct InAFile {
    folder: Arc<TempDir>,
    mode: Mode,
}

impl InAFile {
    fn new(mode: Mode) -> Self {
        Self { folder: Arc::new(tempfile::tempdir().expect("a folder")), mode }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }
}

impl Subject for InAFile {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        let config = SqliteConfig::file(self.path()).create(true);
        Box::pin(async { AnyBackend::new(config.connect().await.expect("a file of its own")) })
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        // A row for each key stays until it is swept: it has the key's last token. One whose holder
        // died says so until it is used again.
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(self.path());
        Box::pin(async move {
            let mut connection = options.connect().await.expect("the file");
            let held = "SELECT name, status, waiting FROM lock_status \
                        WHERE status = 'held' OR waiting > 0";
            let rows = sqlx::query(held).fetch_all(&mut connection).await.expect("the view");
            let shown = |row: &sqlx::sqlite::SqliteRow| {
                format!("{:?} is {:?}", row.get::<String, _>(0), row.get::<String, _>(1))
            };
            rows.iter().map(shown).collect()
        })
    }
}

lock_core::conformance_tests!(
    [flavor = "multi_thread", worker_threads = 2],
    InAFile::new(Mode::Exclusive)
);

/// A permit of one is a mutex.
mod of_one {
    use super::*;

    lock_core::conformance_tests!(
        [flavor = "multi_thread", worker_threads = 2],
        InAFile::new(Mode::Permit { of: 1 })
    );
}

/// All processes of a rule are clones of one store.
#[derive(Debug, Default)]
struct InMemory(OnceLock<Sqlite>);

impl Subject for InMemory {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async {
            let store = match self.0.get() {
                Some(store) => store.clone(),
                None => {
                    let store = Sqlite::connect("sqlite::memory:").await.expect("a database");
                    self.0.get_or_init(|| store).clone()
                }
            };
            AnyBackend::new(store)
        })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(5)
    }
}

mod in_memory {
    use super::*;

    lock_core::conformance_tests!(
        [flavor = "multi_thread", worker_threads = 2],
        InMemory::default()
    );
}

#[tokio::test]
async fn one_file_passes_all_of_it_in_a_row() {
    conformance::all(&InAFile::new(Mode::Exclusive)).await;
}
