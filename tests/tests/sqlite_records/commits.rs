//! Commits that are not answered with a plain yes: what is said of the record is what has happened,
//! or that it is not known.

use std::sync::mpsc;
use std::time::Duration;

use lock_core::LockClient;
use lock_core::idempotency::{
    Begun, CommitError, CompleteInError, Execution, Fingerprint, Found, Idempotency,
    RecordStore as _,
};
use lock_core::sql::{InTransactionError, SqlRecords};
use lock_core::test_util::{Cut, cut};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Sqlite, Transaction};
use tests::executions::{begin, replay, run};
use tests::wait::{eventually, within};
use tokio::sync::oneshot;

use crate::gate::Gate;
use crate::payments::{paid, pay};
use crate::support::{File, Shop};

/// As those of `File::process`.
const SECRET: &str = "the secret of these tests";

fn engine(locks: &LockClient, gate: Gate) -> Idempotency {
    Idempotency::new("tests", locks.clone(), gate).with_secret(SECRET)
}

/// Commits behind the back of the execution, and has its own commit fail: an error of a transaction
/// that is there. The answer of a commit may be lost that way too.
pub(crate) async fn committed_unheard(
    execution: &mut Execution,
    tx: &mut Transaction<'static, Sqlite>,
) {
    pay(tx).await;
    execution.complete_in(tx, paid()).await.expect("it is in flight");
    sqlx::raw_sql("COMMIT; BEGIN IMMEDIATE").execute(&mut **tx).await.expect("a commit");
    fails_to_commit(tx).await;
}

/// Has the next commit be a rollback.
async fn fails_to_commit(tx: &mut Transaction<'static, Sqlite>) {
    let mut refused = false;
    tx.lock_handle().await.expect("a handle").set_commit_hook(move || {
        // Once: the connection goes back to its pool.
        std::mem::replace(&mut refused, true)
    });
}

/// A retry is told what is true, by one process and by all others.
pub(crate) async fn is_settled(shop: &Shop, once: &Idempotency, key: &str, happened: bool) {
    let other = shop.process().await;
    match within("a retry", begin(once, key)).await {
        Ok(Begun::Replay(payload)) => assert!(happened && payload == paid(), "a replay"),
        Ok(Begun::Run(execution)) => {
            assert!(!happened, "it would run twice");
            assert_eq!(execution.replaced(), None, "it is known to have done nothing");
            execution.abort().await.expect("nothing has run");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(shop.payments().await, i64::from(happened), "the effect");
    let begun = within("another process", begin(&other, key)).await.expect("an answer");
    assert_eq!(matches!(begun, Begun::Replay(_)), happened, "{begun:?}");
}

/// SQLite ends it where a statement says `OR ROLLBACK`, and sqlx does not hear of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_is_not_completed_behind_a_transaction_that_sqlite_has_ended() {
    let shop = Shop::new().await;
    sqlx::query("INSERT INTO parents VALUES (1)").execute(&shop.pool).await.expect("a row");
    let once = shop.process().await;
    let execution = run(&once, "k").await;
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    let again = sqlx::query("INSERT OR ROLLBACK INTO parents VALUES (1)").execute(&mut *tx).await;
    assert!(again.is_err());
    let error = execution.commit(tx, paid()).await.expect_err("it is over");
    let CommitError::Complete(CompleteInError::Database { source, .. }) = &error else {
        panic!("{error:?}");
    };
    assert!(matches!(source, InTransactionError::NoTransaction), "{error:?}");
    is_settled(&shop, &once, "k", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_looked_up_and_is_one() {
    let shop = Shop::new().await;
    let once = shop.process().await;
    let mut execution = run(&once, "k").await;
    let mut tx = shop.begin().await;
    committed_unheard(&mut execution, &mut tx).await;
    execution.commit(tx, paid()).await.expect("it is committed");
    assert_eq!((once.stats().completed, once.stats().aborted), (1, 0));
    is_settled(&shop, &once, "k", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_a_hook_turns_into_a_rollback_is_none() {
    let shop = Shop::new().await;
    let once = shop.process().await;
    let execution = run(&once, "k").await;
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    fails_to_commit(&mut tx).await;
    let error = execution.commit(tx, paid()).await.expect_err("it was rolled back");
    assert!(matches!(error, CommitError::NotCommitted { .. }), "{error:?}");
    assert_eq!((once.stats().completed, once.stats().aborted), (0, 1));
    is_settled(&shop, &once, "k", false).await;
}

/// With a rollback journal a commit needs the file for itself, and a reader has it.
async fn with_a_reader() -> (Shop, Transaction<'static, Sqlite>) {
    let file = File::new();
    let options = SqliteConnectOptions::new()
        .filename(file.path())
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Delete)
        .busy_timeout(Duration::ZERO);
    let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await;
    let pool = pool.expect("a database");
    SqlRecords::with_pool(&pool).migrate().await.expect("a table");
    let shop = Shop::over(file, pool).await;
    // Another one than it commits in.
    let reader = shop.begin().await;
    (shop, reader)
}

/// The sweep beside the first claim may have the file, and this pool waits for nobody.
async fn pay_at_last(tx: &mut Transaction<'static, Sqlite>) {
    within("a payment", async {
        let pay = || sqlx::query("INSERT INTO payments (amount) VALUES (5)");
        while let Err(error) = pay().execute(&mut **tx).await {
            assert!(error.to_string().contains("locked"), "{error}");
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn reads(reader: &mut Transaction<'static, Sqlite>) {
    let count = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM payments");
    assert_eq!(count.fetch_one(&mut **reader).await.expect("a table"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_finds_the_file_busy_is_none() {
    let (shop, mut reader) = with_a_reader().await;
    let (read, has_read) = oneshot::channel::<Transaction<'static, Sqlite>>();
    let records = SqlRecords::with_pool(&shop.pool);
    // It reads for as long as the commit goes on, and no longer.
    let gate = Gate::new(records).before_abort(|| async {
        drop(has_read.await.expect("a reader").rollback().await);
    });
    let once = engine(&shop.locks, gate);
    let execution = run(&once, "k").await;
    let mut tx = shop.begin().await;
    pay_at_last(&mut tx).await;
    reads(&mut reader).await;
    read.send(reader).expect("somebody waits for it");
    let error = execution.commit(tx, paid()).await.expect_err("the file is busy");
    assert!(matches!(error, CommitError::NotCommitted { .. }), "{error:?}");
    is_settled(&shop, &once, "k", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_unknown_for_as_long_as_nobody_can_say_and_no_longer() {
    let (shop, mut reader) = with_a_reader().await;
    let once = shop.process().await;
    let execution = run(&once, "k").await;
    let mut tx = shop.begin().await;
    pay_at_last(&mut tx).await;
    reads(&mut reader).await;
    let error = execution.commit(tx, paid()).await.expect_err("the file is busy");
    assert!(matches!(error, CommitError::Unknown { .. }) && error.is_unknown(), "{error:?}");
    assert_eq!((once.stats().completed, once.stats().aborted), (0, 0), "nobody knows");
    drop(reader);
    eventually("it is found out", || once.stats().aborted == 1).await;
    is_settled(&shop, &once, "k", false).await;
}

/// Its outcome has lived its time when the database is asked: that nothing is there says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_record_has_lived_its_time_is_not_taken_for_none() {
    let shop = Shop::new().await;
    let records = shop.file.records().await;
    let (tell, told) = oneshot::channel();
    let gate = Gate::new(records.clone()).before_abort(move || async move {
        let id = told.await.expect("an id");
        let print = Fingerprint::new([1; 32]);
        while records.peek(id, print).await.expect("a file") != Found::Absent {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let once = engine(&shop.locks, gate).with_record_ttl(Duration::from_secs(1));
    let mut execution = run(&once, "k").await;
    let mut tx = shop.begin().await;
    committed_unheard(&mut execution, &mut tx).await;
    tell.send(execution.id()).expect("somebody waits for it");
    let error = execution.commit(tx, paid()).await.expect_err("its commit fails");
    assert!(error.is_unknown(), "it was committed, and this says: {error}");
    assert_eq!(shop.payments().await, 1);
}

/// Between two questions the record is another one's, which is aborted: it is in flight under the
/// first token again, and a word that would acknowledge what is completed must not complete it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_rolled_back_is_not_completed_by_the_question_whether_it_was() {
    let shop = Shop::new().await;
    // Their locks do not exclude each other: as where the first one's lease is over.
    let next = shop.file.process(&LockClient::memory()).await;
    let (begun, has_begun) = oneshot::channel();
    let begins = {
        let next = next.clone();
        move || async move {
            let execution = run(&next, "k").await;
            assert!(execution.replaced().is_some());
            begun.send(execution).expect("somebody waits for it");
        }
    };
    let aborts = move || async move {
        let execution = has_begun.await.expect("another one");
        execution.abort().await.expect("it has done nothing");
    };
    let gate = Gate::new(shop.file.records().await).before_abort(begins).after_abort(aborts);
    let once = engine(&shop.locks, gate);
    let execution = run(&once, "k").await;
    let mut tx = shop.begin().await;
    pay(&mut tx).await;
    let mut refused = false;
    let refuse = move || std::mem::replace(&mut refused, true);
    tx.lock_handle().await.expect("a handle").set_commit_hook(refuse);
    let error = execution.commit(tx, paid()).await.expect_err("it was rolled back");
    assert!(matches!(error, CommitError::NotCommitted { .. }), "{error:?}");
    is_settled(&shop, &next, "k", false).await;
}

/// The caller goes while the database is in the middle of it, and it comes to either end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_dropped_in_its_middle_is_what_it_comes_to() {
    for happens in [true, false] {
        let shop = Shop::new().await;
        let once = shop.process().await;
        let execution = run(&once, "k").await;
        let mut tx = shop.begin().await;
        pay(&mut tx).await;
        let ((inside, mut is_inside), (go, goes)) =
            (tokio::sync::mpsc::unbounded_channel(), mpsc::channel());
        tx.lock_handle().await.expect("a handle").set_commit_hook(move || {
            // On the thread of the connection, which blocks nobody else. Once, as above.
            inside.send(()).is_err() || goes.recv().unwrap_or(true)
        });
        let mut commit = Box::pin(execution.commit(tx, paid()));
        tokio::select! {
            ended = &mut commit => panic!("nobody let it go on: {ended:?}"),
            inside = is_inside.recv() => inside.expect("the hook"),
        }
        drop(commit);
        drop(is_inside);
        go.send(happens).expect("the hook waits");
        is_settled(&shop, &once, "k", happens).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_dropped_at_any_poll_leaves_both_or_neither() {
    let shop = Shop::new().await;
    let once = shop.process().await;
    let (mut paid_for, mut ended) = (0, false);
    for polls in 0..64 {
        let key = polls.to_string();
        let execution = run(&once, &key).await;
        let mut tx = shop.begin().await;
        pay(&mut tx).await;
        ended = cut(Cut::Woken(polls), execution.commit(tx, paid())).await.is_some();
        let begun = within("a retry", begin(&once, &key)).await.expect("an answer");
        let happened = shop.payments().await - paid_for;
        paid_for += happened;
        match begun {
            Begun::Replay(payload) => assert_eq!((payload, happened), (paid(), 1), "{polls}"),
            Begun::Run(execution) => {
                assert_eq!((execution.replaced(), happened, ended), (None, 0, false), "{polls}");
                execution.abort().await.expect("nothing has run");
            }
            other => panic!("{polls}: {other:?}"),
        }
        if ended {
            break;
        }
    }
    assert!(ended, "it never came to its end");
}

/// The runtime that kept the execution is gone, so nobody asks what became of the commit.
#[test]
fn a_commit_behind_the_end_of_the_runtime_of_its_execution_is_unknown() {
    let new = || tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    let (keeps, other) = (new(), new());
    let (shop, once) = other.block_on(async {
        let shop = Shop::new().await;
        let once = shop.process().await;
        (shop, once)
    });
    let mut execution = keeps.block_on(run(&once, "k"));
    keeps.shutdown_timeout(Duration::from_secs(10));
    other.block_on(async {
        let mut tx = shop.begin().await;
        committed_unheard(&mut execution, &mut tx).await;
        let error = execution.commit(tx, paid()).await.expect_err("nobody can say");
        assert!(error.is_unknown(), "{error:?}");
        // The record says it, whatever was not known.
        let next = shop.file.process(&LockClient::memory()).await;
        assert_eq!((shop.payments().await, replay(&next, "k").await), (1, paid()));
    });
}
