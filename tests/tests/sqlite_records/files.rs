//! Troubles of a file or a table, and rows that nobody needs any more.

use std::time::Duration;

use lock_core::FencingToken;
use lock_core::backend::ConnectError;
use lock_core::idempotency::{
    ClaimRecord, Claimed, Fingerprint, OnUnknown, RecordId, RecordStore as _,
};
use lock_core::sql::{DatabaseError, SqlRecords};
use tests::executions::{begin, replay, run};
use tests::wait::eventually;

use crate::support::File;

fn meaning(error: &ConnectError) -> DatabaseError {
    let ConnectError::Store(fault) = error else { panic!("{error:?}") };
    let source = fault.cause().and_then(|cause| cause.downcast_ref::<DatabaseError>());
    source.unwrap_or_else(|| panic!("{fault:?} has no database error")).clone()
}

async fn refused(url: &str) -> DatabaseError {
    meaning(&SqlRecords::connect(url).await.expect_err("it is refused"))
}

#[tokio::test]
async fn what_is_missing_or_of_another_kind_is_told_and_nothing_is_made() {
    let file = File::new();
    let path = file.path();
    let plain = format!("sqlite://{}", path.display());
    assert_eq!(refused(&plain).await, DatabaseError::FileMissing { path: path.clone() });
    assert!(!path.exists());
    let folder = path.parent().expect("a folder").to_owned();
    let url = format!("sqlite://{}?create=true", folder.display());
    assert_eq!(refused(&url).await, DatabaseError::Folder { path: folder.clone() });
    std::fs::write(folder.join("text.db"), "somebody else was here, for longer than a header")
        .expect("a file");
    let url = format!("sqlite://{}?create=true", folder.join("text.db").display());
    assert!(matches!(refused(&url).await, DatabaseError::NoDatabase { .. }));

    let pool = file.pool().await;
    assert!(matches!(refused(&plain).await, DatabaseError::TableMissing { .. }));
    let error = SqlRecords::beside(&pool).await.expect_err("there is no table");
    assert!(matches!(meaning(&error), DatabaseError::TableMissing { .. }));
    sqlx::query("CREATE TABLE lock_records (id TEXT)").execute(&pool).await.expect("a table");
    assert!(matches!(refused(&plain).await, DatabaseError::TableShape { .. }));
    let with_create = refused(&file.url()).await;
    assert!(matches!(with_create, DatabaseError::TableShape { .. }), "{with_create:?}");
    // Beside it there is room.
    let url = format!("{}&table=shop_records", file.url());
    SqlRecords::connect(&url).await.expect("a table of another name");
    for url in ["sqlite://a.db?table=no%20name", "sqlite://a.db?create=yes"] {
        let error = SqlRecords::connect(url).await.expect_err("it is refused");
        assert!(matches!(error, ConnectError::Url(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_file_that_may_only_be_read_is_told() {
    let file = File::new();
    drop(file.records().await);
    let path = file.path();
    let pool = sqlx::SqlitePool::connect_with(
        sqlx::sqlite::SqliteConnectOptions::new().filename(&path).read_only(true),
    )
    .await
    .expect("it may be read");
    let fault = SqlRecords::with_pool(&pool).migrate().await;
    // The table is there: nothing needs to be written.
    fault.expect("it is there");
    let records = SqlRecords::with_pool(&pool);
    let fault = records.claim(RecordId::from_bytes([1; 32]), &claim(7)).await.expect_err("it is");
    let source = fault.cause().and_then(|cause| cause.downcast_ref::<DatabaseError>());
    assert_eq!(source, Some(&DatabaseError::ReadOnly { path }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_beside_a_pool_are_not_held_up_when_that_is_used_up() {
    let file = File::new();
    drop(file.records().await);
    let pool = file.pool().await;
    let records = SqlRecords::beside(&pool).await.expect("a table");
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(pool.acquire().await.expect("a connection"));
    }
    let locks = lock_core::LockClient::memory();
    let once = lock_core::idempotency::Idempotency::new("tests", locks, records);
    run(&once, "k").await.complete("done".into()).await.expect("in time");
    assert_eq!(replay(&once, "k").await, "done");
    drop(all);
}

#[tokio::test]
async fn a_database_in_memory_is_one_for_all_clones() {
    let records = SqlRecords::connect("sqlite::memory:").await.expect("memory");
    let locks = lock_core::LockClient::memory();
    let once = lock_core::idempotency::Idempotency::new("tests", locks, records.clone());
    run(&once, "k").await.complete("done".into()).await.expect("in time");
    let again =
        lock_core::idempotency::Idempotency::new("tests", lock_core::LockClient::memory(), records);
    assert_eq!(replay(&again, "k").await, "done");
    let pool = sqlx::SqlitePool::connect("sqlite::memory:").await.expect("memory");
    let error = SqlRecords::beside(&pool).await.expect_err("nobody else sees it");
    assert!(error.to_string().contains("with_pool"), "{error}");
}

/// A transaction that stays open keeps others from writing. They are told in time, and go on after
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_busy_for_long_is_an_outage_that_passes() {
    let file = File::new();
    let locks = lock_core::LockClient::memory();
    let once = file.process(&locks).await;
    let pool = file.pool().await;
    let tx = pool.begin_with("BEGIN IMMEDIATE").await.expect("a transaction");
    let error = begin(&once, "k").await.expect_err("nothing can be written");
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    drop(tx);
    let mut execution = None;
    for _ in 0..100 {
        if let Ok(lock_core::idempotency::Begun::Run(begun)) = begin(&once, "k").await {
            execution = Some(begun);
            break;
        }
    }
    execution.expect("it passes").complete("done".into()).await.expect("in time");
    assert_eq!(replay(&once, "k").await, "done");
}

fn claim(token: u64) -> ClaimRecord {
    ClaimRecord {
        fingerprint: Fingerprint::new([1; 32]),
        token: FencingToken::from_stored(token),
        ttl: Duration::from_millis(1),
        on_unknown: OnUnknown::Reexecute,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_whose_life_is_over_go_while_claims_are_made_some_at_a_time() {
    let file = File::new();
    let records = file.records().await;
    let pool = file.pool().await;
    let count = || async {
        let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM lock_records");
        count.fetch_one(&pool).await.expect("a table")
    };
    // As a process leaves them that has ended.
    sqlx::query(
        "INSERT INTO lock_records (id, layout, version, state, token, since, until, fingerprint)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
         SELECT randomblob(32), 1, 1, 'in flight', 1, 0, 1, zeroblob(32) FROM n",
    )
    .execute(&pool)
    .await
    .expect("a table");
    assert_eq!(records.sweep().await.expect("a table"), 128, "one statement takes a few");
    let claimed = records.claim(RecordId::from_bytes([1; 32]), &claim(7)).await;
    assert!(matches!(claimed, Ok(Claimed::Claimed { .. })), "{claimed:?}");
    for _ in 0..300 {
        if count().await <= 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(count().await <= 1, "the first claim sweeps what was left");
    let mut number = 0_u64;
    for _ in 0..2_000 {
        number += 1;
        let mut id = [2; 32];
        id[..8].copy_from_slice(&number.to_be_bytes());
        let claimed = records.claim(RecordId::from_bytes(id), &claim(7)).await;
        assert!(matches!(claimed, Ok(Claimed::Claimed { .. })), "{claimed:?}");
    }
    eventually("no more than the last are left", || {
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(count())) < 600
    })
    .await;
}
