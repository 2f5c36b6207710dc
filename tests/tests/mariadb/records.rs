//! Executions of MariaDB that are completed in the transaction of their effect.

use bytes::Bytes;
use lock_core::LockClient;
use lock_core::error::ConnectError;
use lock_core::idempotency::{CommitError, CompleteInError};
use lock_core::sql::{DatabaseError, InTransactionError, SqlRecords};
use tests::executions::{replay, run};

use crate::payments::{paid, pay};
use crate::shop::Shop;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effect_and_record_are_there_together_or_neither_is() {
    let shop = Shop::new().await;
    let locks = LockClient::memory();
    let (once, other) = (shop.process(&locks).await, shop.process(&locks).await);
    let mut execution = run(&once, "k").await;
    let mut tx = shop.pool.begin().await.expect("a transaction");
    pay(&mut tx).await;
    execution.complete_in(&mut tx, paid()).await.expect("it is in flight");
    tx.rollback().await.expect("a rollback");
    assert_eq!(shop.payments().await, 0);
    let mut tx = shop.pool.begin().await.expect("a transaction");
    pay(&mut tx).await;
    execution.commit(tx, paid()).await.expect("a commit");
    assert_eq!(shop.payments().await, 1);
    assert_eq!(replay(&other, "k").await, paid());
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

/// A table of records that is kept by an engine without transactions would remember what is rolled back.
#[tokio::test]
async fn a_table_of_records_without_transactions_is_told() {
    let shop = Shop::new().await;
    shop.owner_says("ALTER TABLE {shop}.lock_records ENGINE = Aria");
    let error = SqlRecords::beside(&shop.pool).await.expect_err("no transactions");
    let ConnectError::Store(fault) = &error else { panic!("{error}") };
    let cause = fault.cause().and_then(|cause| cause.downcast_ref::<DatabaseError>());
    assert!(matches!(cause, Some(DatabaseError::TableEngine { .. })), "{error}");
}
