//! Idempotency records in MariaDB: the conformance suite over one table, whose processes have
//! connections of their own, and executions that are completed in the transaction of their effect.
//! The application has the least rights.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use lock_core::LockClient;
use lock_core::idempotency::{
    Begun, CommitError, CompleteInError, Execution, Fingerprint, Idempotency, RecordId,
    RecordStore, Scope,
};
use lock_core::sql::{InTransactionError, SqlRecords};
use lock_core::test_util::BoxFuture;
use lock_core::test_util::records::{self, RecordSubject};
use sqlx::{MySql, MySqlPool, Transaction};
use tokio::sync::OnceCell;

use crate::support::Place;

/// What is done to a row, and what it is then.
const DAMAGES: [(&str, &str); 15] = [
    ("layout = 2", "a record of another version"),
    ("layout = 0", "a record of no version"),
    ("state = 'running'", "a record in an unknown state"),
    ("state = ''", "a record without a state"),
    ("token = 0", "a record without a token"),
    ("token = -1", "a record with a broken token"),
    ("fingerprint = X'00'", "a record with a fingerprint that is cut"),
    ("fingerprint = REPEAT(X'00', 33)", "a record with a longer fingerprint"),
    ("payload = X'00', payload_bytes = 2", "a record with a payload that is cut"),
    ("payload = NULL, payload_bytes = 1", "a record that has lost its payload"),
    ("payload = X'0011', payload_bytes = NULL", "a record that does not know its length"),
    ("barred = -1", "a record with a broken mark"),
    ("back_token = 5", "a record that took over from half an execution"),
    ("back_first = 5", "a record with a first of none"),
    ("state = 'aborted', payload = X'00', payload_bytes = 1", "a mark with a payload"),
];

/// An application whose tables are in a database of its own.
#[derive(Debug)]
struct Shop {
    pool: MySqlPool,
    _place: Place,
}

impl Shop {
    async fn new() -> Self {
        static SHOPS: AtomicU32 = AtomicU32::new(0);
        let place = Place::new();
        let name = format!("shop_{}", SHOPS.fetch_add(1, Ordering::Relaxed));
        place.server.sql(format!(
            "CREATE DATABASE {name}; CREATE USER {name} IDENTIFIED BY 'secret'; \
             CREATE TABLE {name}.payments (id int AUTO_INCREMENT PRIMARY KEY, amount int); \
             GRANT SELECT, INSERT ON {name}.payments TO {name}"
        ));
        let options = place.server.options().username(&name).database(&name);
        let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(4);
        let pool = pool.connect_lazy_with(options);
        let script = SqlRecords::with_pool(&pool).statements().join(";");
        place.server.sql(format!(
            "USE {name}; {script}; USE shop; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.lock_records TO {name}"
        ));
        Self { pool, _place: place }
    }

    async fn records(&self) -> SqlRecords {
        SqlRecords::beside(&self.pool).await.expect("a table")
    }

    /// One process, with locks of these.
    async fn process(&self, locks: &LockClient) -> Idempotency {
        Idempotency::new("tests", locks.clone(), self.records().await)
            .with_secret("the secret of these tests")
    }

    async fn payments(&self) -> i64 {
        let count = sqlx::query_scalar("SELECT COUNT(*) FROM payments");
        count.fetch_one(&self.pool).await.expect("a table")
    }
}

async fn pay(tx: &mut Transaction<'static, MySql>) {
    let pay = sqlx::query("INSERT INTO payments (amount) VALUES (5)");
    pay.execute(&mut **tx).await.expect("a payment");
}

async fn begin(once: &Idempotency, key: &str) -> Begun {
    let begun = once.begin(&Scope::of("tests"), key.as_bytes(), Fingerprint::new([1; 32])).await;
    begun.expect("an answer")
}

async fn run(once: &Idempotency, key: &str) -> Execution {
    match begin(once, key).await {
        Begun::Run(execution) => execution,
        other => panic!("{other:?} is no run"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effect_and_record_are_there_together_or_neither_is() {
    let shop = Shop::new().await;
    let locks = LockClient::memory();
    let (once, other) = (shop.process(&locks).await, shop.process(&locks).await);
    let mut execution = run(&once, "k").await;
    let mut tx = shop.pool.begin().await.expect("a transaction");
    pay(&mut tx).await;
    execution.complete_in(&mut tx, Bytes::from_static(b"paid")).await.expect("it is in flight");
    tx.rollback().await.expect("a rollback");
    assert_eq!(shop.payments().await, 0);
    let mut tx = shop.pool.begin().await.expect("a transaction");
    pay(&mut tx).await;
    execution.commit(tx, Bytes::from_static(b"paid")).await.expect("a commit");
    assert_eq!(shop.payments().await, 1);
    match begin(&other, "k").await {
        Begun::Replay(payload) => assert_eq!(payload, "paid"),
        other => panic!("{other:?} is no replay"),
    }
}

/// A deadlock ends the whole transaction at MariaDB, and sqlx does not hear of it. The record must not
/// say that an effect is there which is rolled back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_is_not_completed_behind_a_transaction_that_the_server_has_ended() {
    let shop = Shop::new().await;
    let once = shop.process(&LockClient::memory()).await;
    let execution = run(&once, "k").await;
    let mut tx = shop.pool.begin().await.expect("a transaction");
    pay(&mut tx).await;
    sqlx::raw_sql("ROLLBACK").execute(&mut *tx).await.expect("it is ended");
    let error = execution.commit(tx, Bytes::new()).await.expect_err("it is over");
    let CommitError::Complete(CompleteInError::Database { source, .. }) = &error else {
        panic!("{error:?}");
    };
    assert!(matches!(source, InTransactionError::NoTransaction), "{error:?}");
    assert_eq!(shop.payments().await, 0);
    drop(run(&once, "k").await);
}

/// Also where its transaction reads from a snapshot in which nobody has taken over yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_was_overtaken_can_not_commit() {
    let shop = Shop::new().await;
    // Two processes whose locks do not exclude each other: as one that stood still past its lease.
    let (stale, next) =
        (shop.process(&LockClient::memory()).await, shop.process(&LockClient::memory()).await);
    let mut late = run(&stale, "k").await;
    let mut tx = shop.pool.begin().await.expect("a transaction");
    let seen = sqlx::query("SELECT token FROM lock_records").fetch_all(&mut *tx).await;
    assert_eq!(seen.expect("a row").len(), 1);
    let newer = run(&next, "k").await;
    assert!(newer.token() > late.token());
    pay(&mut tx).await;
    let error = late.complete_in(&mut tx, Bytes::new()).await.expect_err("another has taken over");
    assert!(matches!(error, CompleteInError::Stale { .. }), "{error:?}");
    drop(tx);
    let mut tx = shop.pool.begin().await.expect("a transaction");
    pay(&mut tx).await;
    newer.commit(tx, Bytes::new()).await.expect("a commit");
    assert_eq!(shop.payments().await, 1);
}

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
        let sql = format!("UPDATE lock_records SET {damage} WHERE id = ?");
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
            let row = sqlx::query_scalar::<_, Vec<u8>>(
                "SELECT CAST(CONCAT_WS(' ', HEX(id), layout, version, state, token, barred, since, \
                 until, back_token, back_first, back_since, back_until, HEX(fingerprint), \
                 payload_bytes, payload) AS BINARY) FROM lock_records WHERE id = ?",
            );
            let row = row.bind(id.as_bytes().to_vec()).fetch_one(&self.shop().await.pool).await;
            row.expect("a row")
        })
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async {
            let shop = self.shop().await;
            let records = shop.records().await;
            while records.sweep().await.expect("a table") > 0 {}
            let lines = sqlx::query_scalar("SELECT CONCAT(HEX(id), ' ', state) FROM lock_records");
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
