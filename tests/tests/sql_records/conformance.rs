//! The conformance suite of record stores over one table, whose processes have connections of their
//! own. The same in each database.

use std::sync::Arc;
use std::time::Duration;

use lock_core::idempotency::{RecordId, RecordStore};
use lock_core::sql::SqlRecords;
use lock_core::test_util::BoxFuture;
use lock_core::test_util::records::{self, RecordSubject};
use tokio::sync::OnceCell;

use crate::support::{LEFT, Shop, WHERE_ID, bytes, dumped};

/// The damages that are done to a row, with these bytes in hexadecimal for `{}`, and what it is
/// then.
const DAMAGES: [(&str, &str, &str); 15] = [
    ("layout = 2", "", "a record of another version"),
    ("layout = 0", "", "a record of no version"),
    ("state = 'running'", "", "a record in an unknown state"),
    ("state = ''", "", "a record without a state"),
    ("token = 0", "", "a record without a token"),
    ("token = -1", "", "a record with a broken token"),
    ("fingerprint = {}", "00", "a record with a fingerprint that is cut"),
    ("fingerprint = {}", LONGER, "a record with a longer fingerprint"),
    ("payload = {}, payload_bytes = 2", "00", "a record with a payload that is cut"),
    ("payload = NULL, payload_bytes = 1", "", "a record that has lost its payload"),
    ("payload = {}, payload_bytes = NULL", "0011", "a record that does not know its length"),
    ("barred = -1", "", "a record with a broken mark"),
    ("back_token = 5", "", "a record that took over from half an execution"),
    ("back_first = 5", "", "a record with a first of none"),
    ("state = 'aborted', payload = {}, payload_bytes = 1", "00", "a mark with a payload"),
];

/// 33 bytes.
const LONGER: &str = "000000000000000000000000000000000000000000000000000000000000000000";

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
        let (damage, hex, what) = DAMAGES.get(n)?;
        let damage = damage.replace("{}", &bytes(hex));
        let sql = format!("UPDATE lock_records SET {damage} {WHERE_ID}");
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
        Box::pin(async move { dumped(&self.shop().await.pool, id).await })
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async {
            let shop = self.shop().await;
            let records = shop.records().await;
            while records.sweep().await.expect("a table") > 0 {}
            sqlx::query_scalar(LEFT).fetch_all(&shop.pool).await.expect("a table")
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
