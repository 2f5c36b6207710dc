//! The conformance suite of record stores over one table, whose processes have connections of their
//! own, under a login with the least rights.

use std::sync::Arc;
use std::time::Duration;

use lock_core::idempotency::{RecordId, RecordStore};
use lock_core::sql::SqlRecords;
use lock_core::test_util::BoxFuture;
use lock_core::test_util::records::{self, RecordSubject};
use tokio::sync::OnceCell;

use crate::support::Shop;

/// What is done to a row, and what it is then.
const DAMAGES: [(&str, &str); 15] = [
    ("layout = 2", "a record of another version"),
    ("layout = 0", "a record of no version"),
    ("state = 'running'", "a record in an unknown state"),
    ("state = ''", "a record without a state"),
    ("token = 0", "a record without a token"),
    ("token = -1", "a record with a broken token"),
    (r"fingerprint = '\x00'", "a record with a fingerprint that is cut"),
    ("fingerprint = decode(repeat('00', 33), 'hex')", "a record with a longer fingerprint"),
    (r"payload = '\x00', payload_bytes = 2", "a record with a payload that is cut"),
    ("payload = NULL, payload_bytes = 1", "a record that has lost its payload"),
    (r"payload = '\x0011', payload_bytes = NULL", "a record that does not know its length"),
    ("barred = -1", "a record with a broken mark"),
    ("back_token = 5", "a record that took over from half an execution"),
    ("back_first = 5", "a record with a first of none"),
    (r"state = 'aborted', payload = '\x00', payload_bytes = 1", "a mark with a payload"),
];

#[derive(Debug)]
struct InATable {
    shop: OnceCell<Shop>,
    through_pool: bool,
}

impl InATable {
    fn new() -> Self {
        Self { shop: OnceCell::new(), through_pool: false }
    }

    fn through_pool() -> Self {
        Self { shop: OnceCell::new(), through_pool: true }
    }

    async fn shop(&self) -> &Shop {
        self.shop.get_or_init(Shop::new).await
    }

    async fn damaged(&self, id: RecordId, n: usize) -> Option<String> {
        let (damage, what) = DAMAGES.get(n)?;
        let sql = format!("UPDATE lock_records SET {damage} WHERE id = $1");
        let update = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(id.as_bytes().to_vec());
        let updated = update.execute(&self.shop().await.pool).await.expect("a table");
        assert_eq!(updated.rows_affected(), 1);
        Some((*what).to_owned())
    }
}

impl RecordSubject for InATable {
    fn open(&self) -> BoxFuture<'_, Arc<dyn RecordStore>> {
        Box::pin(async {
            let shop = self.shop().await;
            let records: Arc<dyn RecordStore> = Arc::new(match self.through_pool {
                true => SqlRecords::with_pool(&shop.pool),
                false => shop.records().await,
            });
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
        Box::pin(async move {
            let row = sqlx::query_scalar::<_, String>(
                "SELECT r::text FROM lock_records AS r WHERE id = $1",
            );
            let row = row.bind(id.as_bytes().to_vec()).fetch_one(&self.shop().await.pool).await;
            row.expect("a row").into_bytes()
        })
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async {
            let shop = self.shop().await;
            let records = shop.records().await;
            while records.sweep().await.expect("a table") > 0 {}
            let lines =
                sqlx::query_scalar("SELECT encode(id, 'hex') || ' ' || state FROM lock_records");
            lines.fetch_all(&shop.pool).await.expect("a table")
        })
    }
}

lock_core::record_conformance_tests!(
    [flavor = "multi_thread", worker_threads = 2],
    InATable::new()
);

/// Once more in a row, through a pool of the application.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_table_passes_all_of_it_in_a_row_through_a_pool() {
    records::all(&InATable::through_pool()).await;
}
