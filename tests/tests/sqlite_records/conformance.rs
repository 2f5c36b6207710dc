//! The conformance suite of record stores over one file, whose processes have connections of their
//! own.

use std::sync::Arc;
use std::time::Duration;

use lock_core::idempotency::{RecordId, RecordStore};
use lock_core::sql::SqlRecords;
use lock_core::test_util::BoxFuture;
use lock_core::test_util::records::{self, RecordSubject};
use sqlx::{Row, SqlitePool};

use crate::support::File;

/// What is done to a row, and what it is then.
const DAMAGES: [(&str, &str); 15] = [
    ("layout = 2", "a record of another version"),
    ("layout = 0", "a record of no version"),
    ("state = 'running'", "a record in an unknown state"),
    ("state = ''", "a record without a state"),
    ("token = 0", "a record without a token"),
    ("token = -1", "a record with a broken token"),
    ("fingerprint = x'00'", "a record with a fingerprint that is cut"),
    ("fingerprint = zeroblob(33)", "a record with a longer fingerprint"),
    ("payload = x'00', payload_bytes = 2", "a record with a payload that is cut"),
    ("payload = NULL, payload_bytes = 1", "a record that has lost its payload"),
    ("payload = x'0011', payload_bytes = NULL", "a record that does not know its length"),
    ("barred = -1", "a record with a broken mark"),
    ("back_token = 5", "a record that took over from half an execution"),
    ("back_first = 5", "a record with a first of none"),
    ("state = 'aborted', payload = x'00', payload_bytes = 1", "a mark with a payload"),
];

#[derive(Debug)]
struct OnFile {
    file: File,
    through_pool: bool,
}

impl OnFile {
    fn new() -> Self {
        Self { file: File::new(), through_pool: false }
    }

    fn through_pool() -> Self {
        Self { file: File::new(), through_pool: true }
    }

    async fn damaged(&self, id: RecordId, n: usize) -> Option<String> {
        let (damage, what) = DAMAGES.get(n)?;
        let pool = self.file.pool().await;
        let sql = format!("UPDATE lock_records SET {damage} WHERE id = ?");
        let update = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(id.as_bytes().to_vec());
        assert_eq!(update.execute(&pool).await.expect("a table").rows_affected(), 1);
        Some((*what).to_owned())
    }
}

async fn dumped(pool: &SqlitePool, id: RecordId) -> Vec<u8> {
    let row = sqlx::query("SELECT * FROM lock_records WHERE id = ?").bind(id.as_bytes().to_vec());
    let row = row.fetch_one(pool).await.expect("a row");
    let column = |n| row.try_get_unchecked::<Option<Vec<u8>>, _>(n).expect("bytes of any type");
    format!("{:?}", (0..row.len()).map(column).collect::<Vec<_>>()).into_bytes()
}

impl RecordSubject for OnFile {
    fn open(&self) -> BoxFuture<'_, Arc<dyn RecordStore>> {
        Box::pin(async {
            let records = if self.through_pool {
                let records = SqlRecords::with_pool(&self.file.pool().await);
                records.migrate().await.expect("a table");
                records
            } else {
                self.file.records().await
            };
            let records: Arc<dyn RecordStore> = Arc::new(records);
            records
        })
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn damage(&self, id: RecordId, n: usize) -> BoxFuture<'_, Option<String>> {
        Box::pin(self.damaged(id, n))
    }

    fn dump(&self, id: RecordId) -> BoxFuture<'_, Vec<u8>> {
        Box::pin(async move { dumped(&self.file.pool().await, id).await })
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async {
            let records = self.file.records().await;
            while records.sweep().await.expect("a table") > 0 {}
            let lines =
                sqlx::query_scalar("SELECT lower(hex(id)) || ' ' || state FROM lock_records");
            lines.fetch_all(&self.file.pool().await).await.expect("a table")
        })
    }
}

lock_core::record_conformance_tests!([flavor = "multi_thread", worker_threads = 2], OnFile::new());

/// Once more in a row, through pools of the application.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_file_passes_all_of_it_in_a_row_through_a_pool() {
    records::all(&OnFile::through_pool()).await;
}
