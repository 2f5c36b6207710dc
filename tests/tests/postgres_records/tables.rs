//! Troubles of a table or a login, and rows that nobody needs any more.

use std::time::Duration;

use lock_core::FencingToken;
use lock_core::backend::{ConnectError, Fault};
use lock_core::idempotency::{
    ClaimRecord, Claimed, CompleteInError, Fingerprint, OnUnknown, RecordId, RecordStore as _,
};
use lock_core::sql::{DatabaseError, InTransactionError, SqlRecords};
use sqlx::postgres::PgPoolOptions;
use tests::executions::{begin, replay, run};
use tests::wait::{eventually, within};

use crate::payments::paid;
use crate::support::Shop;

fn of_fault(fault: &Fault) -> DatabaseError {
    let source = fault.cause().and_then(|cause| cause.downcast_ref::<DatabaseError>());
    source.unwrap_or_else(|| panic!("{fault:?} has no database error")).clone()
}

fn meaning(error: &ConnectError) -> DatabaseError {
    let ConnectError::Store(fault) = error else { panic!("{error:?}") };
    of_fault(fault)
}

#[tokio::test]
async fn what_is_missing_or_of_another_kind_is_told_and_nothing_is_made() {
    let shop = Shop::without_records().await;
    let name = &shop.name;
    let refused = async || meaning(&SqlRecords::beside(&shop.pool).await.expect_err("it is"));
    assert!(matches!(refused().await, DatabaseError::TableMissing { .. }));
    // The login may make nothing, and is told what it may not.
    let fault = SqlRecords::with_pool(&shop.pool).migrate().await.expect_err("no right");
    assert!(matches!(of_fault(&fault), DatabaseError::RightMissing { .. }), "{fault:?}");
    // By its owner, in a schema, however many call it at once.
    let url = format!("{}?schema={name}&create=true", shop.server.url_as("postgres"));
    let made = tokio::join!(
        SqlRecords::connect(&url),
        SqlRecords::connect(&url),
        SqlRecords::connect(&url)
    );
    for made in [made.0, made.1, made.2, SqlRecords::connect(&url).await] {
        made.expect("a table");
    }
    let error = refused().await;
    assert!(matches!(error, DatabaseError::RightMissing { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("lock_records") && text.contains(name), "{text}");
    shop.server
        .sql(format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.lock_records TO {name}"));
    let records = SqlRecords::beside(&shop.pool).await.expect("a table");
    records.migrate().await.expect("what is there needs no right to be made");

    let other = Shop::without_records().await;
    other.server.sql(format!(
        "CREATE TABLE {0}.lock_records (id text); GRANT ALL ON {0}.lock_records TO {0}",
        other.name
    ));
    let error = meaning(&SqlRecords::beside(&other.pool).await.expect_err("another table"));
    assert!(matches!(error, DatabaseError::TableShape { .. }), "{error:?}");
    for url in [
        "postgres://h/db?table=no%20name",
        "postgres://h/db?schema=Other",
        "postgres://h/db?create=yes",
        "postgres://h/db?durability=async",
        "redis://h",
    ] {
        let error = SqlRecords::connect(url).await.expect_err("it is refused");
        assert!(matches!(error, ConnectError::Url(_)), "{error:?}");
    }
}

/// Under another name, in a schema: an execution finds the table in its transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_another_name_in_a_schema_is_completed_in_a_transaction() {
    let shop = Shop::without_records().await;
    let url = format!(
        "{}?schema={}&table=shop_records&create=true",
        shop.server.url_as("postgres"),
        shop.name
    );
    let records = SqlRecords::connect(&url).await.expect("a table");
    let once = lock_core::idempotency::Idempotency::new("tests", shop.locks.clone(), records);
    let mut execution = run(&once, "k").await;
    // The login of the transaction is another one, and may not write the record.
    let mut tx = shop.begin().await;
    let error = execution.complete_in(&mut tx, paid()).await.expect_err("no right");
    let is_right = |source: &_| matches!(source, InTransactionError::RightMissing { .. });
    assert!(
        matches!(&error, CompleteInError::Database { source, .. } if is_right(source)),
        "{error:?}"
    );
    drop(tx);
    shop.server.sql(format!("GRANT ALL ON {0}.shop_records TO {0}", shop.name));
    let tx = shop.begin().await;
    execution.commit(tx, paid()).await.expect("a commit");
    assert_eq!(replay(&once, "k").await, paid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_beside_a_pool_are_not_held_up_when_that_is_used_up() {
    let shop = Shop::new().await;
    let pool = PgPoolOptions::new().max_connections(2).connect_with(shop.options()).await;
    let pool = pool.expect("a server");
    let records = SqlRecords::beside(&pool).await.expect("a table");
    let all = (pool.acquire().await.expect("one"), pool.acquire().await.expect("the other"));
    let once = lock_core::idempotency::Idempotency::new("tests", shop.locks.clone(), records);
    run(&once, "k").await.complete("done".into()).await.expect("in time");
    assert_eq!(replay(&once, "k").await, "done");
    drop(all);
}

/// A transaction that keeps the record locked is an outage of that record alone, which passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_a_stranger_keeps_locked_is_an_outage_that_passes() {
    let shop = Shop::new().await;
    let once = shop.process().await;
    let execution = run(&once, "k").await;
    let mut stranger = shop.begin().await;
    let lock = sqlx::query("SELECT id FROM lock_records FOR UPDATE");
    lock.execute(&mut *stranger).await.expect("a row");
    // The first process is gone, and another one would take over.
    let other = shop.process_with(&lock_core::LockClient::memory()).await;
    let error = begin(&other, "k").await.expect_err("it is locked");
    assert!(error.is_unavailable() && error.is_retryable(), "{error}");
    run(&other, "l").await.complete("beside it".into()).await.expect("in time");
    stranger.rollback().await.expect("an end");
    let taken = run(&other, "k").await;
    assert_eq!(taken.replaced(), Some(execution.token()));
    taken.complete("done".into()).await.expect("in time");
    assert_eq!(replay(&other, "k").await, "done");
    drop(execution);
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
    let shop = Shop::new().await;
    let records = shop.records().await;
    let name = &shop.name;
    // As a process leaves them that has ended.
    shop.server.sql(format!(
        "INSERT INTO {name}.lock_records \
         (id, layout, version, state, token, since, until, fingerprint) \
         SELECT decode(lpad(to_hex(n), 64, '0'), 'hex'), 1, 1, 'in flight', 1, 0, 1, \
         decode(repeat('00', 32), 'hex') FROM generate_series(1, 1000) AS n"
    ));
    assert_eq!(records.sweep().await.expect("a table"), 128, "one statement takes a few");
    let claimed = records.claim(RecordId::from_bytes([1; 32]), &claim(7)).await;
    assert!(matches!(claimed, Ok(Claimed::Claimed { .. })), "{claimed:?}");
    let left = format!("SELECT 1 FROM {name}.lock_records");
    eventually("the first claim sweeps what was left", || shop.server.sql(&*left).len() <= 1).await;
}

/// As behind a failover: what is open leads to a server that takes no writes any more, and what is
/// opened next to one that does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_a_server_that_takes_no_writes_any_more_are_not_kept() {
    let shop = Shop::new().await;
    let records = SqlRecords::with_pool(&shop.pool);
    let once = lock_core::idempotency::Idempotency::new("tests", shop.locks.clone(), records);
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut connection = shop.pool.acquire().await.expect("a connection");
        let ends = sqlx::query("SET default_transaction_read_only = on");
        ends.execute(&mut *connection).await.expect("a setting");
        open.push(connection);
    }
    drop(open);
    drop(run(&once, "k").await);
    // Where no other is to be had, that is told.
    let every = |to| shop.server.sql(format!("ALTER ROLE {} {to}", shop.name));
    every("SET default_transaction_read_only = on");
    shop.server.sql(format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{}'",
        shop.name
    ));
    let told = async {
        // One that is being ended may be met first.
        while !begin(&once, "other")
            .await
            .is_err_and(|error| format!("{error:?}").contains("ReadOnlyServer"))
        {}
    };
    within("it is told", told).await;
    every("RESET default_transaction_read_only");
    drop(run(&once, "other").await);
}

/// A login that is not let in any more, as while a password is replaced: what has happened is kept as
/// soon as it is let in again, and does not run twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_outlives_a_login_that_is_not_let_in_for_a_while() {
    let shop = Shop::new().await;
    let once = shop.process().await;
    let execution = run(&once, "k").await;
    let name = &shop.name;
    shop.server.sql(format!("ALTER ROLE {name} NOLOGIN"));
    shop.server.sql(format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{name}'"
    ));
    let error =
        within("an answer", execution.complete("paid".into())).await.expect_err("no connection");
    assert!(format!("{error:?}").contains("Login"), "{error:?}");
    shop.server.sql(format!("ALTER ROLE {name} LOGIN"));
    assert_eq!(within("its outcome", replay(&once, "k")).await, "paid");
}
