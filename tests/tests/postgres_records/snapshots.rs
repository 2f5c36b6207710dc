//! Transactions of PostgreSQL that read from a snapshot, and those in which a statement has failed.

use lock_core::LockClient;
use lock_core::idempotency::{CommitError, CompleteInError, OnUnknown};
use sqlx::Connection as _;
use tests::executions::{replay, run};
use tests::wait::{eventually, within};

use crate::payments::{paid, pay};
use crate::support::Shop;

/// A snapshot that is older than the claim, or than the last take-over, does not have the record as it
/// is. That is a serialisation failure, and not the word that another has taken over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_snapshot_is_told_apart_from_a_record_that_another_took_over() {
    let shop = Shop::new().await;
    let once = shop.process().await;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let begin = format!("BEGIN ISOLATION LEVEL {level}");
        let snapshot = async || {
            let tx = shop.pool.begin_with(sqlx::AssertSqlSafe(begin.clone())).await;
            let mut tx = tx.expect("a transaction");
            let read = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM payments");
            read.fetch_one(&mut *tx).await.expect("a snapshot");
            tx
        };
        // It was not there when the snapshot was taken.
        let mut tx = snapshot().await;
        let mut execution = run(&once, level).await;
        let error = execution.complete_in(&mut tx, paid()).await.expect_err("it is old");
        assert!(error.is_retryable() && !error.is_stale(), "{level}: {error:?}");
        drop(tx);
        // It was another one's when the snapshot was taken.
        let mut tx = snapshot().await;
        let mut newer = run(&shop.process_with(&LockClient::memory()).await, level).await;
        let error = newer.complete_in(&mut tx, paid()).await.expect_err("it is old");
        assert!(error.is_retryable() && !error.is_stale(), "{level}: {error:?}");
        drop(tx);
        // With a new one both are told what is so.
        let mut tx = snapshot().await;
        let error = execution.complete_in(&mut tx, paid()).await.expect_err("it was overtaken");
        assert!(error.is_stale() && !error.is_retryable(), "{level}: {error:?}");
        drop((tx, execution));
        let mut tx = snapshot().await;
        pay(&mut tx).await;
        newer.commit(tx, paid()).await.expect("a commit");
        assert_eq!(replay(&once, level).await, paid());
    }
    assert_eq!(shop.payments().await, 2);
}

/// A record that is gone is so at every level: nothing is left of how that was found out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_gone_is_stale_at_every_level() {
    let shop = Shop::new().await;
    let once = shop.process().await;
    // One that is dropped leaves a mark in the table, some time later.
    let mut kept = Vec::new();
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let mut execution = run(&once, level).await;
        sqlx::query("DELETE FROM lock_records").execute(&shop.pool).await.expect("a table");
        let begin = sqlx::AssertSqlSafe(format!("BEGIN ISOLATION LEVEL {level}"));
        let mut tx = shop.pool.begin_with(begin).await.expect("a transaction");
        let error = execution.complete_in(&mut tx, paid()).await.expect_err("it is gone");
        assert!(error.is_stale(), "{level}: {error:?}");
        // Also where somebody commits it all the same.
        tx.commit().await.expect("a commit");
        let left = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM lock_records");
        assert_eq!(left.fetch_one(&shop.pool).await.expect("a table"), 0, "{level}");
        kept.push(execution);
    }
}

/// A statement that fails in a transaction fails all of it, and nobody takes its commit for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_in_which_a_statement_has_failed_is_not_completed() {
    let shop = Shop::new().await;
    // It is known that nothing has happened, so a retry runs here as well.
    let once = shop.process().await.with_on_unknown(OnUnknown::Refuse);
    let execution = run(&once, "k").await;
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    let fails = sqlx::query("SELECT 1 / 0").execute(&mut *tx).await;
    assert!(fails.is_err());
    let error = execution.commit(tx, paid()).await.expect_err("it has failed");
    assert!(matches!(error, CommitError::Complete(CompleteInError::Database { .. })), "{error:?}");
    assert_eq!(shop.payments().await, 0);
    let retry = within("a retry", run(&once, "k")).await;
    assert_eq!(retry.replaced(), None);
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    // A part of it that is undone takes nothing else along.
    let mut part = tx.begin().await.expect("a savepoint");
    assert!(sqlx::query("SELECT 1 / 0").execute(&mut *part).await.is_err());
    part.rollback().await.expect("it is undone");
    retry.commit(tx, paid()).await.expect("a commit");
    assert_eq!((shop.payments().await, replay(&once, "k").await), (1, paid()));
}

/// One of two processes has taken over. It gives the record back between the two statements in
/// which the other finds that out. The record is the other's again then: completed, and not only
/// said to be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_given_back_in_between_is_completed() {
    let shop = Shop::new().await;
    let name = &shop.name;
    // Behind an update, one who has said so waits for what the test keeps.
    shop.server.sql(format!(
        "CREATE FUNCTION {name}.gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF current_setting('{name}.waits', true) = 'yes' THEN \
         PERFORM pg_advisory_xact_lock(hashtext('{name}')); END IF; RETURN NULL; END $$; \
         CREATE TRIGGER gate AFTER UPDATE ON {name}.lock_records \
         FOR EACH STATEMENT EXECUTE FUNCTION {name}.gate()"
    ));
    let said = |text: String| sqlx::AssertSqlSafe(text);
    let once = shop.process().await;
    let mut late = run(&once, "k").await;
    let newer = run(&shop.process_with(&LockClient::memory()).await, "k").await;
    assert_eq!(newer.replaced(), Some(late.token()));
    let mut gate = shop.begin().await;
    let keep = said(format!("SELECT pg_advisory_xact_lock(hashtext('{name}'))"));
    sqlx::query(keep).execute(&mut *gate).await.expect("a lock");
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    let waits = said(format!("SET LOCAL {name}.waits = 'yes'"));
    sqlx::query(waits).execute(&mut *tx).await.expect("a setting");
    let completing = tokio::spawn(async move {
        let done = late.complete_in(&mut tx, paid()).await;
        (late, tx, done)
    });
    let stands = format!(
        "SELECT pid FROM pg_stat_activity WHERE usename = '{name}' AND wait_event = 'advisory'"
    );
    eventually("it stands at the gate", || !shop.server.sql(&*stands).is_empty()).await;
    newer.abort().await.expect("it is given back");
    gate.rollback().await.expect("the gate is open");
    let (late, tx, done) = within("its end", completing).await.expect("no panic");
    done.expect("it is this one's again");
    tx.commit().await.expect("a commit");
    late.committed().await.expect("a runtime");
    assert_eq!(within("a replay", replay(&once, "k")).await, paid());
    assert_eq!(shop.payments().await, 1);
}
