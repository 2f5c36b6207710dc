//! Writes that a stale holder cannot commit: the check in the transaction of the write, for locks
//! of several stores, over one SQLite file that several connections share.

use std::time::Duration;

use lock_core::sql::{FenceError, Fences};
use lock_core::{FencingToken, LockClient, LockGuard};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Sqlite, SqlitePool, Transaction};
use tempfile::TempDir;
use tests::redis::RedisServer;
use tests::wait::within;

const DOCUMENT: &str = "document:1";

/// A database with one document, and the fences.
struct Database {
    pool: SqlitePool,
    _folder: TempDir,
}

impl Database {
    async fn new() -> Self {
        let this = Self::without_fences().await;
        Fences::default().migrate(&this.pool).await.expect("a table");
        this
    }

    async fn without_fences() -> Self {
        let folder = TempDir::new().expect("a folder");
        let options = SqliteConnectOptions::new()
            .filename(folder.path().join("shop.db"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(Duration::from_secs(20));
        let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await;
        let this = Self { pool: pool.expect("a database"), _folder: folder };
        this.run("CREATE TABLE documents (id INTEGER PRIMARY KEY, text TEXT NOT NULL)").await;
        this.run("INSERT INTO documents VALUES (1, 'empty')").await;
        this
    }

    async fn run(&self, sql: &'static str) {
        sqlx::query(sql).execute(&self.pool).await.expect("it is done");
    }

    async fn begin(&self) -> Transaction<'static, Sqlite> {
        self.pool.begin().await.expect("a transaction")
    }

    async fn text(&self) -> String {
        let text = sqlx::query_scalar("SELECT text FROM documents WHERE id = 1");
        text.fetch_one(&self.pool).await.expect("a document")
    }

    /// The fence of the document.
    async fn fence(&self) -> Option<i64> {
        let fence = sqlx::query_scalar("SELECT fence FROM lock_fences WHERE resource = ?");
        fence.bind(DOCUMENT).fetch_optional(&self.pool).await.expect("a table")
    }

    /// A holder writes the document in a transaction of its own.
    async fn write(&self, guard: &LockGuard, text: &str) -> Result<(), FenceError> {
        let mut tx = self.begin().await;
        guard.fence(&mut tx, DOCUMENT).await?;
        put(&mut tx, text).await;
        tx.commit().await.expect("a commit");
        Ok(())
    }
}

async fn put(tx: &mut Transaction<'static, Sqlite>, text: &str) {
    let update = sqlx::query("UPDATE documents SET text = ? WHERE id = 1").bind(text);
    update.execute(&mut **tx).await.expect("an update");
}

/// Two holders of one key, of which the first believes that it holds it still: its process stood
/// still, or its clock did. Permits are held side by side, as the two of them are then.
async fn two_holders(locks: &LockClient) -> (LockGuard, LockGuard) {
    let older = locks.lock(DOCUMENT).permits(2).await.expect("a permit");
    let newer = locks.lock(DOCUMENT).permits(2).await.expect("a permit");
    assert!(older.token() < newer.token());
    assert!(older.is_held() && newer.is_held());
    (older, newer)
}

fn assert_stale(result: Result<(), FenceError>, of: &LockGuard, by: &LockGuard) {
    match result {
        Err(error @ FenceError::Stale { .. }) => {
            assert!(error.is_stale() && !error.is_retryable());
            let text = error.to_string();
            for part in [DOCUMENT, &of.token().to_string(), &by.token().to_string(), "roll"] {
                assert!(text.contains(part), "{part} is not in {text}");
            }
        }
        other => panic!("{other:?}"),
    }
}

/// V8: SQLite ends a transaction where a statement says `OR ROLLBACK`, and where there is no room. sqlx
/// does not hear of it. What comes next would commit by itself, the check too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_sqlite_has_ended_is_fenced_no_more() {
    for ends in [
        "INSERT OR ROLLBACK INTO documents VALUES (1, 'again')",
        "INSERT INTO documents VALUES (2, zeroblob(1000000))",
    ] {
        let database = Database::new().await;
        let guard = LockClient::memory().lock("k").await.expect("a free key");
        let fences = Fences::default();
        let mut tx = database.begin().await;
        fences.check(&mut tx, guard.token(), DOCUMENT).await.expect("it is open");
        // The file grows no more, as on a full disk.
        sqlx::query("PRAGMA max_page_count = 1").execute(&mut *tx).await.expect("a bound");
        assert!(sqlx::query(ends).execute(&mut *tx).await.is_err());
        for _ in 0..2 {
            let refused = fences.check(&mut tx, guard.token(), DOCUMENT).await;
            assert!(
                matches!(refused, Err(FenceError::NoTransaction { .. })),
                "{ends}: {refused:?}"
            );
        }
        assert_eq!(database.fence().await, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_older_of_two_holders_is_refused_once_the_newer_has_written() {
    let database = Database::new().await;
    let locks = LockClient::memory();
    let (older, newer) = two_holders(&locks).await;
    database.write(&newer, "newer").await.expect("the newer may write");
    assert_stale(database.write(&older, "older").await, &older, &newer);
    assert_eq!(database.text().await, "newer");
    // Nor later.
    assert_stale(database.write(&older, "older").await, &older, &newer);
    database.write(&newer, "newer again").await.expect("the newer may write again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_older_may_write_before_the_newer_has() {
    let database = Database::new().await;
    let (older, newer) = two_holders(&LockClient::memory()).await;
    database.write(&older, "older").await.expect("nobody has written yet");
    database.write(&newer, "newer").await.expect("the newer may write");
    assert_eq!(database.text().await, "newer");
    assert_stale(database.write(&older, "older").await, &older, &newer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_holder_may_write_several_times_and_several_resources() {
    let database = Database::new().await;
    let locks = LockClient::memory();
    let guard = locks.lock(DOCUMENT).await.expect("a lock");
    for text in ["one", "two"] {
        database.write(&guard, text).await.expect("it is the holder");
    }
    let mut tx = database.begin().await;
    for resource in ["document:1", "document:2", "document:1"] {
        guard.fence(&mut tx, resource).await.expect("it is the holder");
    }
    put(&mut tx, "three").await;
    tx.commit().await.expect("a commit");
    assert_eq!(database.text().await, "three");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_is_rolled_back_leaves_no_mark() {
    let database = Database::new().await;
    let (older, newer) = two_holders(&LockClient::memory()).await;
    for is_dropped in [true, false] {
        let mut tx = database.begin().await;
        newer.fence(&mut tx, DOCUMENT).await.expect("it is the holder");
        put(&mut tx, "newer").await;
        match is_dropped {
            true => drop(tx),
            false => tx.rollback().await.expect("a rollback"),
        }
        assert_eq!(database.fence().await, None);
    }
    database.write(&older, "older").await.expect("nobody has written");
    assert_eq!(database.text().await, "older");
}

/// The second waits for the first one's commit, and is judged by what that has left.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_that_write_at_once_the_older_comes_first_or_not_at_all() {
    let database = Database::new().await;
    let (older, newer) = two_holders(&LockClient::memory()).await;
    // The newer has passed its check and has not committed when the older one comes.
    let mut tx = database.begin().await;
    newer.fence(&mut tx, DOCUMENT).await.expect("it is the holder");
    put(&mut tx, "newer").await;
    let late = database.write(&older, "older");
    let mut late = std::pin::pin!(late);
    let early = tokio::time::timeout(Duration::from_millis(100), &mut late).await;
    assert!(early.is_err(), "it did not wait: {early:?}");
    tx.commit().await.expect("a commit");
    assert_stale(within("the older one", late).await, &older, &newer);
    assert_eq!(database.text().await, "newer");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_holders_one_after_another_leave_the_last_ones_text() {
    let database = Database::new().await;
    let locks = LockClient::memory();
    let holders: Vec<_> = {
        let mut holders = Vec::new();
        for _ in 0..16 {
            holders.push(locks.lock(DOCUMENT).permits(16).await.expect("a permit"));
        }
        holders
    };
    let writes = holders
        .iter()
        .enumerate()
        .map(async |(number, guard)| (number, database.write(guard, &number.to_string()).await));
    let mut passed: Vec<usize> = Vec::new();
    for (number, result) in futures_util::future::join_all(writes).await {
        match result {
            Ok(()) => passed.push(number),
            Err(error) => assert!(error.is_stale(), "{error}"),
        }
    }
    assert!(passed.contains(&15), "nobody is newer than the last one");
    assert_eq!(database.text().await, "15");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_lost_by_its_own_clock_is_refused_before_anything_is_sent() {
    let database = Database::new().await;
    let locks = LockClient::memory();
    let guard = locks.lock(DOCUMENT).hold_limit(Duration::from_millis(20)).await.expect("a lock");
    guard.lost().await;
    // No statement could be answered by a pool that is closed.
    let mut tx = database.begin().await;
    database.run("DROP TABLE lock_fences").await;
    let error = guard.fence(&mut tx, DOCUMENT).await.expect_err("it is lost");
    assert!(matches!(error, FenceError::NotHeld { lost: Some(_), .. }), "{error:?}");
    assert!(error.is_stale() && error.to_string().contains("roll"), "{error}");
    let guard = locks.lock("other").await.expect("a lock");
    let handle = guard.handle();
    guard.release().await.expect("it is released");
    let error = handle.fence(&mut tx, DOCUMENT).await.expect_err("it is released");
    assert!(matches!(error, FenceError::NotHeld { lost: None, .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_redis_are_fenced_as_those_of_memory_are() {
    let server = RedisServer::start();
    let database = Database::new().await;
    let locks = LockClient::connect(&server.url()).await.expect("a server that answers");
    let (older, newer) = two_holders(&locks).await;
    database.write(&older, "older").await.expect("nobody has written yet");
    database.write(&newer, "newer").await.expect("the newer may write");
    assert_stale(database.write(&older, "older").await, &older, &newer);
    assert_eq!(database.fence().await, Some(i64::from(newer.token())));
}

/// As a service that is sent a token, and holds no lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_alone_is_checked_too_and_in_a_table_of_another_name() {
    let database = Database::new().await;
    let (older, newer) = two_holders(&LockClient::memory()).await;
    let (older, newer): (FencingToken, FencingToken) = (older.token(), newer.token());
    let own = Fences::in_table("shop_fences").expect("a name");
    own.migrate(&database.pool).await.expect("a table");
    let mut tx = database.begin().await;
    newer.fence(&mut tx, DOCUMENT).await.expect("nobody has written");
    assert!(older.fence(&mut tx, DOCUMENT).await.is_err_and(|error| error.is_stale()));
    own.check(&mut tx, older, DOCUMENT).await.expect("nobody has written in that table");
    tx.commit().await.expect("a commit");
    assert!(Fences::in_table("lock fences; --").is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_missing_or_another_one_is_told_with_what_to_do() {
    let database = Database::without_fences().await;
    let locks = LockClient::memory();
    let guard = locks.lock(DOCUMENT).await.expect("a lock");
    let error = database.write(&guard, "text").await.expect_err("there is no table");
    assert!(matches!(error, FenceError::TableMissing { .. }), "{error:?}");
    assert!(error.to_string().contains("lock_fences") && error.to_string().contains("migrate"));
    assert_eq!(database.text().await, "empty");
    // The statements that are printed are those that `migrate` runs.
    for statement in Fences::default().statements::<Sqlite>() {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&database.pool).await.expect("it is");
    }
    database.write(&guard, "text").await.expect("there is one");
    Fences::default().migrate(&database.pool).await.expect("it is there already");

    let database = Database::without_fences().await;
    database.run("CREATE TABLE lock_fences (resource TEXT, height INTEGER)").await;
    let error = database.write(&guard, "text").await.expect_err("it is another table");
    assert!(matches!(error, FenceError::TableShape { .. }), "{error:?}");
    let error = Fences::default().migrate(&database.pool).await.expect_err("it is another table");
    assert!(matches!(error, FenceError::TableShape { .. }), "{error:?}");
}

/// Reading first and checking later is too late in SQLite where others write: it says so, and
/// nothing is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_has_read_before_another_wrote_is_told_to_begin_anew() {
    let database = Database::new().await;
    let (older, newer) = two_holders(&LockClient::memory()).await;
    let mut tx = database.begin().await;
    let read = sqlx::query_scalar::<_, String>("SELECT text FROM documents").fetch_one(&mut *tx);
    assert_eq!(read.await.expect("a document"), "empty");
    database.write(&older, "older").await.expect("it is the first");
    let error = newer.fence(&mut tx, DOCUMENT).await.expect_err("what it has read is old");
    assert!(matches!(error, FenceError::Busy { .. }) && error.is_retryable(), "{error:?}");
    drop(tx);
    database.write(&newer, "newer").await.expect("anew");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_name_is_refused_before_anything_is_sent() {
    let database = Database::without_fences().await;
    let locks = LockClient::memory();
    let guard = locks.lock(DOCUMENT).await.expect("a lock");
    let mut tx = database.begin().await;
    for name in ["".to_owned(), "n".repeat(600)] {
        let error = guard.fence(&mut tx, name).await.expect_err("it is no name");
        assert!(matches!(error, FenceError::Resource(_)), "{error:?}");
    }
}
