//! The conformance suite over a server of a database, in real time: a table for each rule. The same
//! for each database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::Mode;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};
use sqlx::Row;
use tests::database::Shared;

use super::{Backend, DbRow, KIND, Server};

#[derive(Debug)]
struct InATable {
    server: Arc<Server>,
    table: String,
    mode: Mode,
}

impl InATable {
    fn new(mode: Mode) -> Self {
        // For all rules that run at a time.
        static SERVER: Shared<Server> = Shared::new();
        static TABLES: AtomicU32 = AtomicU32::new(0);
        let table = format!("leases_{}", TABLES.fetch_add(1, Ordering::Relaxed));
        Self { server: SERVER.get(Server::start), table, mode }
    }
}

impl Subject for InATable {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        let url = format!("{}&table={}", self.server.url(), self.table);
        Box::pin(async move {
            let backend = Backend::connect(&url).await.expect("a server");
            KIND.checked(AnyBackend::new(backend))
        })
    }

    fn mode(&self) -> Mode {
        self.mode
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        // A row for each key stays until it is swept: it has the key's last token. One whose holder
        // died says so until it is used again.
        let held = format!(
            "SELECT name, status FROM {}_status WHERE status = 'held' OR waiting > 0",
            self.table
        );
        let rows = self.server.sql(held);
        let shown =
            |row: &DbRow| format!("{:?} is {:?}", row.get::<String, _>(0), row.get::<String, _>(1));
        let left = rows.iter().map(shown).collect();
        Box::pin(std::future::ready(left))
    }
}

lock_core::conformance_tests!(
    [flavor = "multi_thread", worker_threads = 2],
    InATable::new(Mode::Exclusive)
);

/// A permit of one is a mutex.
mod of_one {
    use super::*;

    lock_core::conformance_tests!(
        [flavor = "multi_thread", worker_threads = 2],
        InATable::new(Mode::Permit { of: 1 })
    );
}

#[tokio::test]
async fn one_table_passes_all_of_it_in_a_row() {
    conformance::all(&InATable::new(Mode::Exclusive)).await;
}
