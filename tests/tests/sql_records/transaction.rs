//! An execution that is completed in the transaction of its effect: both are there or neither is.
//! The same in each database.

use bytes::Bytes;
use lock_core::LockClient;
use lock_core::idempotency::{
    Begun, CommitError, CompleteInError, Duplicates, Idempotency, MemoryRecords, Outcome,
};
use lock_core::sql::InTransactionError;
use tests::executions::{begin, replay, run};
use tests::wait::{eventually, within};

use crate::payments::{paid, pay};
use crate::support::Shop;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effect_and_record_are_there_together_after_the_commit() {
    let shop = Shop::new().await;
    let (once, other) = (shop.process().await, shop.process().await);
    let mut execution = run(&once, "k").await;
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    execution.complete_in(&mut tx, paid()).await.expect("it is in flight");
    tx.commit().await.expect("a commit");
    execution.committed().await.expect("in time");
    assert_eq!(shop.payments().await, 1);
    for once in [&once, &other] {
        assert_eq!(replay(once, "k").await, paid());
    }
    assert_eq!(once.stats().completed, 1);
    // In one call.
    let execution = run(&once, "l").await;
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    execution.commit(tx, Outcome::WithoutPayload).await.expect("a commit");
    assert!(matches!(begin(&other, "l").await, Ok(Begun::WithoutPayload)));
    assert_eq!(shop.payments().await, 2);
    eventually("no lock is held", || once.locks().stats().keys == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_is_rolled_back_leaves_neither_and_a_retry_runs() {
    let shop = Shop::new().await;
    let once = shop.process().await;
    let mut execution = run(&once, "k").await;
    for _ in 0..2 {
        // It may be tried again under the same execution.
        let mut tx = shop.begin().await;
        pay(&mut tx).await;
        execution.complete_in(&mut tx, paid()).await.expect("it is in flight");
        tx.rollback().await.expect("a rollback");
    }
    drop(execution);
    assert_eq!(shop.payments().await, 0);
    let retry = within("a retry", run(&once, "k")).await;
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    retry.commit(tx, paid()).await.expect("a commit");
    assert_eq!((shop.payments().await, replay(&once, "k").await), (1, paid()));
}

/// The process that drops it does not know what becomes of the transaction: the database does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_that_is_dropped_without_a_word_is_what_its_transaction_came_to() {
    let shop = Shop::new().await;
    let once = shop.process().await;
    for is_dropped_first in [false, true] {
        let key = format!("k-{is_dropped_first}");
        let mut execution = run(&once, &key).await;
        let mut tx = shop.begin().await;
        pay(&mut tx).await;
        execution.complete_in(&mut tx, paid()).await.expect("it is in flight");
        if is_dropped_first {
            drop(execution);
            // Whoever takes the record back waits for the transaction.
            let waits = begin(&once, &key);
            tokio::pin!(waits);
            let early = tokio::time::timeout(std::time::Duration::from_millis(200), &mut waits);
            assert!(early.await.is_err());
            tx.commit().await.expect("a commit");
            match within("the outcome", waits).await {
                Ok(Begun::Replay(payload)) => assert_eq!(payload, paid()),
                other => panic!("{other:?}"),
            }
        } else {
            tx.commit().await.expect("a commit");
            drop(execution);
        }
        assert_eq!(within("the outcome", replay(&once, &key)).await, paid());
    }
    assert_eq!(shop.payments().await, 2);
    assert_eq!(once.stats().executed, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_that_wait_are_given_what_was_committed() {
    let shop = Shop::new().await;
    let once = shop.process().await;
    let execution = run(&once, "k").await;
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let once = once.clone();
            tokio::spawn(async move { replay(&once, "k").await })
        })
        .collect();
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    execution.commit(tx, paid()).await.expect("a commit");
    for waiting in waiting {
        assert_eq!(within("a duplicate", waiting).await.expect("no panic"), paid());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_was_overtaken_can_not_commit() {
    let shop = Shop::new().await;
    // Two processes whose locks do not exclude each other: as one that stood still past its lease.
    let (stale, next) = (shop.process().await, shop.process_with(&LockClient::memory()).await);
    let mut late = run(&stale, "k").await;
    let newer = run(&next, "k").await;
    assert!(newer.replaced() == Some(late.token()) && newer.token() > late.token());
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    let error = late.complete_in(&mut tx, paid()).await.expect_err("another has taken over");
    assert!(matches!(error, CompleteInError::Stale { .. }) && error.is_stale(), "{error:?}");
    drop(tx);
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    let error = late.commit(tx, paid()).await.expect_err("another has taken over");
    assert!(error.is_stale(), "{error:?}");
    assert_eq!(shop.payments().await, 0);
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    newer.commit(tx, Bytes::from_static(b"newer")).await.expect("a commit");
    assert_eq!((shop.payments().await, replay(&stale, "k").await), (1, "newer".into()));
}

/// The database refuses the commit for a reference that is broken: it is rolled back, and known to be so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_the_database_refuses_leaves_neither_and_a_retry_runs() {
    let shop = Shop::new().await;
    let once = shop.process().await;
    let execution = run(&once, "k").await;
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    let child = sqlx::query("INSERT INTO children VALUES (7)");
    child.execute(&mut *tx).await.expect("it is looked at by the commit");
    let error = execution.commit(tx, paid()).await.expect_err("a broken reference");
    assert!(matches!(error, CommitError::NotCommitted { .. }), "{error:?}");
    assert_eq!(shop.payments().await, 0);
    let retry = within("a retry", run(&once, "k")).await;
    assert_eq!(retry.replaced(), None, "the first one is known to have done nothing");
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    retry.commit(tx, paid()).await.expect("a commit");
    assert_eq!(shop.payments().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_elsewhere_than_the_records_is_refused() {
    let shop = Shop::new().await;
    let once = Idempotency::new("tests", shop.locks.clone(), MemoryRecords::new());
    let mut execution = run(&once, "k").await;
    let mut tx = shop.begin().await;
    let error = execution.complete_in(&mut tx, paid()).await.expect_err("they are in memory");
    assert!(matches!(error, CompleteInError::OtherStore { .. }), "{error:?}");
    assert!(error.to_string().contains("SqlRecords"), "{error}");
    drop(tx);

    let once = shop.process().await;
    let elsewhere = Shop::without_records().await;
    let mut execution = run(&once, "k").await;
    let mut tx = elsewhere.begin().await;
    let error = execution.complete_in(&mut tx, paid()).await.expect_err("there is no table");
    let missing = |source: &_| matches!(source, InTransactionError::TableMissing { .. });
    assert!(
        matches!(&error, CompleteInError::Database { source, .. } if missing(source)),
        "{error:?}"
    );
    drop(tx);
    let elsewhere = Shop::new().await;
    let mut tx = elsewhere.begin().await;
    let error = execution.complete_in(&mut tx, paid()).await.expect_err("there is no record");
    assert!(error.is_stale(), "{error:?}");
    drop(tx);
    let mut tx = shop.begin().await;
    execution.complete_in(&mut tx, paid()).await.expect("it is in flight");
    drop(tx);
    execution.abort().await.expect("it was not committed");
}

/// Processes that know one of the two secrets find the outcome, and neither finds half of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_secret_is_replaced_both_records_are_completed_or_neither_is() {
    const OLD: &str = "the old secret of these tests";
    const NEW: &str = "the new secret of these tests";
    let shop = Shop::new().await;
    let waits = Duplicates::Wait(std::time::Duration::from_secs(60));
    let old = shop.process().await.with_secret(OLD).with_duplicates(waits);
    let new = shop.process().await.with_secret(NEW).with_duplicates(waits);
    let both = shop.process().await.with_secret(NEW).with_old_secret(OLD).with_duplicates(waits);
    for key in 0..8 {
        let key = key.to_string();
        let mut execution = run(&both, &key).await;
        let mut tx = shop.begin().await;
        execution.complete_in(&mut tx, paid()).await.expect("both are in flight");
        drop(tx);
        execution.abort().await.expect("neither is completed");
        let retry = within("a retry", run(&both, &key)).await;
        let mut tx = shop.begin().await;
        pay(&mut tx).await;
        retry.commit(tx, paid()).await.expect("a commit");
        for once in [&old, &new, &both] {
            assert_eq!(within("an outcome", replay(once, &key)).await, paid());
        }
    }
    assert_eq!(shop.payments().await, 8);
    for once in [&old, &new, &both] {
        eventually("no lock is held", || once.locks().stats().keys == 0).await;
    }
}
