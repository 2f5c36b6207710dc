//! Writes that a stale holder cannot commit, in PostgreSQL: at each level of isolation, and where
//! the server ends the check. The application may do no more than docs/sql.md says.

use std::sync::Arc;

use lock_core::sql::{FenceError, Fences};
use lock_core::{LockClient, LockGuard};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool, Postgres, Transaction};
use tests::postgres::PostgresServer;
use tests::wait::{eventually, within};

use crate::support::*;

const DOCUMENT: &str = "document:1";

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// A schema with one document and the fences, and an application that uses them.
struct Database {
    server: Arc<PostgresServer>,
    name: String,
    pool: PgPool,
}

impl Database {
    async fn new() -> Self {
        let this = Self::without_fences().await;
        let name = &this.name;
        let table = Fences::default().statements::<Postgres>().join(";\n");
        this.server.sql(format!(
            "SET search_path TO {name}; {table}; RESET search_path; \
             GRANT SELECT, INSERT, UPDATE ON {name}.lock_fences TO {name}"
        ));
        this
    }

    async fn without_fences() -> Self {
        let Place { server, table } = Place::new();
        let name = format!("fenced_{table}");
        server.sql(format!(
            "CREATE ROLE {name} LOGIN; CREATE SCHEMA {name}; GRANT USAGE ON SCHEMA {name} TO {name}; \
             CREATE TABLE {name}.documents (id bigint PRIMARY KEY, text text NOT NULL); \
             INSERT INTO {name}.documents VALUES (1, 'empty'); \
             GRANT SELECT, UPDATE ON {name}.documents TO {name}"
        ));
        let options = Self::options(&server, &name);
        let pool = PgPoolOptions::new().max_connections(4).connect_with(options).await;
        Self { server, name, pool: pool.expect("a server") }
    }

    fn options(server: &PostgresServer, name: &str) -> PgConnectOptions {
        server.options().username(name).application_name(name).options([("search_path", name)])
    }

    async fn begin(&self, level: &str) -> Transaction<'static, Postgres> {
        let begin = AssertSqlSafe(format!("BEGIN ISOLATION LEVEL {level}"));
        self.pool.begin_with(begin).await.expect("a transaction")
    }

    async fn text(&self) -> String {
        let text = sqlx::query_scalar("SELECT text FROM documents WHERE id = 1");
        text.fetch_one(&self.pool).await.expect("a document")
    }

    async fn write(&self, level: &str, guard: &LockGuard, text: &str) -> Result<(), FenceError> {
        let mut tx = self.begin(level).await;
        guard.fence(&mut tx, DOCUMENT).await?;
        put(&mut tx, text).await;
        tx.commit().await.expect("a commit");
        Ok(())
    }

    /// So many statements of the application wait for a row.
    async fn waits(&self, n: usize) {
        let waits = format!(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = '{}'",
            self.name
        );
        eventually("it waits for the row", || self.server.sql(&*waits).len() == n).await;
    }
}

async fn put(tx: &mut Transaction<'static, Postgres>, text: &str) {
    let update = sqlx::query("UPDATE documents SET text = $1 WHERE id = 1").bind(text);
    update.execute(&mut **tx).await.expect("an update");
}

async fn say(tx: &mut PgConnection, text: &'static str) {
    sqlx::query(text).execute(tx).await.expect("good statements");
}

/// Two holders of one key, of which the first believes that it holds it still.
async fn two_holders(locks: &LockClient) -> (LockGuard, LockGuard) {
    let older = locks.lock(DOCUMENT).permits(2).await.expect("a permit");
    let newer = locks.lock(DOCUMENT).permits(2).await.expect("a permit");
    assert!(older.token() < newer.token());
    (older, newer)
}

fn assert_stale(result: Result<(), FenceError>) {
    let error = result.expect_err("a later holder has written");
    assert!(matches!(error, FenceError::Stale { .. }), "{error:?}");
    assert!(error.is_stale() && !error.is_retryable());
}

/// Somebody was in the way, and nothing is known of who is the later one.
fn assert_busy(result: Result<(), FenceError>) {
    let error = result.expect_err("another was in the way");
    assert!(matches!(error, FenceError::Busy { .. }), "{error:?}");
    assert!(!error.is_stale() && error.is_retryable());
}

#[tokio::test]
async fn at_each_level_the_older_of_two_holders_is_refused_once_the_newer_has_written() {
    for level in LEVELS {
        let database = Database::new().await;
        let (older, newer) = two_holders(&LockClient::memory()).await;
        database.write(level, &older, "older").await.expect("nobody has written yet");
        database.write(level, &newer, "newer").await.expect("the newer may write");
        database.write(level, &newer, "again").await.expect("and once more");
        assert_stale(database.write(level, &older, "older").await);
        assert_eq!(database.text().await, "again", "{level}");
    }
}

/// The locks may be in the database that is written, and the connection one that is handed on.
#[tokio::test]
async fn tokens_of_postgres_are_fenced_also_on_a_connection_that_is_handed_on() {
    async fn checked(guard: &LockGuard, tx: &mut PgConnection) -> Result<(), FenceError> {
        guard.fence_on(tx, DOCUMENT).await
    }
    let database = Database::new().await;
    let place = Place::new();
    let locks = place.client().await;
    let (older, newer) = two_holders(&locks).await;
    let mut connection = database.pool.acquire().await.expect("a connection");
    let error = checked(&newer, &mut connection).await.expect_err("there is no transaction");
    assert!(matches!(error, FenceError::NoTransaction { .. }), "{error:?}");
    let mut tx = connection.begin().await.expect("a transaction");
    checked(&newer, &mut tx).await.expect("nobody has written");
    tx.commit().await.expect("a commit");
    assert_stale(database.write(LEVELS[0], &older, "older").await);
    let mut tx = database.begin(LEVELS[0]).await;
    let token = older.token();
    let error = Fences::default().check_on(&mut *tx, token, DOCUMENT).await;
    assert_stale(error);
}

/// The second waits for the first one's commit. At *read committed* it is judged by what that has
/// left; behind a snapshot it is told to begin anew, and is judged then.
#[tokio::test]
async fn of_two_that_write_at_once_the_older_comes_first_or_not_at_all() {
    for level in LEVELS {
        // The row is there before, or made by the first of them.
        for is_new in [true, false] {
            let database = Database::new().await;
            let (older, newer) = two_holders(&LockClient::memory()).await;
            if !is_new {
                database.write(level, &older, "before").await.expect("nobody has written");
            }
            let mut tx = database.begin(level).await;
            newer.fence(&mut tx, DOCUMENT).await.expect("it is the holder");
            put(&mut tx, "newer").await;
            let late = database.write(level, &older, "older");
            let (late, ()) = tokio::join!(within("the older one", late), async {
                database.waits(1).await;
                tx.commit().await.expect("a commit");
            });
            match level {
                "READ COMMITTED" => assert_stale(late),
                _ => assert_busy(late),
            }
            assert_stale(database.write(level, &older, "older").await);
            assert_eq!(database.text().await, "newer", "{level}");
        }
    }
}

/// The server tells that a snapshot is too old, to the later holder too. A new transaction passes.
#[tokio::test]
async fn a_snapshot_that_is_older_than_the_last_write_is_told_to_begin_anew() {
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let database = Database::new().await;
        let (older, newer) = two_holders(&LockClient::memory()).await;
        for text in ["first", "second"] {
            let mut tx = database.begin(level).await;
            say(&mut tx, "SELECT text FROM documents").await;
            database.write(level, &older, text).await.expect("it is the first");
            assert_busy(newer.fence(&mut tx, DOCUMENT).await);
        }
        database.write(level, &newer, "newer").await.expect("anew");
        // Two that depend on each other beside the fence: the server ends one of them.
        let (mut one, mut two) = (database.begin(level).await, database.begin(level).await);
        newer.fence(&mut one, "one").await.expect("a resource of its own");
        newer.fence(&mut two, "two").await.expect("a resource of its own");
        say(&mut two, "SELECT text FROM documents").await;
        put(&mut one, "one").await;
        one.commit().await.expect("a commit");
        let late = sqlx::query("UPDATE documents SET text = 'two'").execute(&mut *two).await;
        let code = late.expect_err("it has read what is old");
        assert_eq!(code.as_database_error().and_then(|it| it.code()).as_deref(), Some("40001"));
    }
}

/// V4: a check that waits for somebody who does not end is ended by the limits of the application, and is
/// not taken for a refusal.
#[tokio::test]
async fn a_check_that_waits_for_too_long_is_ended_and_may_be_made_anew() {
    for limit in ["SET LOCAL statement_timeout = '50ms'", "SET LOCAL lock_timeout = '50ms'"] {
        let database = Database::new().await;
        let (older, newer) = two_holders(&LockClient::memory()).await;
        let mut first = database.begin(LEVELS[0]).await;
        older.fence(&mut first, DOCUMENT).await.expect("it is the first");
        let mut tx = database.begin(LEVELS[0]).await;
        say(&mut tx, limit).await;
        let error = newer.fence(&mut tx, DOCUMENT).await.expect_err("the first has not ended");
        match limit.contains("statement") {
            true => assert!(matches!(error, FenceError::Ended { .. }), "{error:?}"),
            false => assert!(matches!(error, FenceError::Busy { .. }), "{error:?}"),
        }
        assert!(error.is_retryable() && !error.is_stale(), "{error:?}");
        drop(tx);
        put(&mut first, "older").await;
        first.commit().await.expect("a commit");
        database.write(LEVELS[0], &newer, "newer").await.expect("anew");
        assert_eq!(database.text().await, "newer");
    }
}

/// V4: two that check two resources in two orders stand in each other's way: one is ended, the other
/// passes, and the first passes anew.
#[tokio::test]
async fn a_deadlock_with_the_fence_ends_one_of_two_and_it_may_begin_anew() {
    let database = Database::new().await;
    let (older, newer) = two_holders(&LockClient::memory()).await;
    let (mut one, mut two) = (database.begin(LEVELS[0]).await, database.begin(LEVELS[0]).await);
    older.fence(&mut one, "a").await.expect("it is the first");
    newer.fence(&mut two, "b").await.expect("it is the first");
    let first = async {
        let checked = older.fence(&mut one, "b").await;
        // Whichever it is, its end lets the other go on.
        match checked.is_ok() {
            true => one.commit().await.expect("a commit"),
            false => one.rollback().await.expect("a rollback"),
        }
        checked
    };
    let second = async {
        database.waits(1).await;
        let checked = newer.fence(&mut two, "a").await;
        match checked.is_ok() {
            true => two.commit().await.expect("a commit"),
            false => two.rollback().await.expect("a rollback"),
        }
        checked
    };
    match within("both", async { tokio::join!(first, second) }).await {
        (ended, Ok(())) => assert_busy(ended),
        // The other has never committed.
        (Ok(()), ended) => assert_busy(ended),
        both => panic!("{both:?}"),
    }
    let mut anew = database.begin(LEVELS[0]).await;
    for resource in ["a", "b"] {
        newer.fence(&mut anew, resource).await.expect("nobody is in the way");
    }
    anew.commit().await.expect("a commit");
}

/// V8: the table is not made unasked, and what is there is left as it is.
#[tokio::test]
async fn a_table_that_is_missing_or_another_one_is_told_with_what_to_do() {
    let database = Database::without_fences().await;
    let name = &database.name;
    let guard = LockClient::memory().lock(DOCUMENT).await.expect("a lock");
    let error = database.write(LEVELS[0], &guard, "text").await.expect_err("there is no table");
    assert!(matches!(error, FenceError::TableMissing { .. }), "{error:?}");
    assert!(error.to_string().contains("lock_fences") && error.to_string().contains("migrate"));
    let error = Fences::default().migrate(&database.pool).await.expect_err("it may make nothing");
    assert!(matches!(error, FenceError::RightMissing { .. }), "{error:?}");
    // By its owner, however many call it at once.
    let owner = database.server.options().options([("search_path", name)]);
    let owner = PgPoolOptions::new().connect_with(owner).await.expect("a server");
    let fences = Fences::default();
    let made = tokio::join!(fences.migrate(&owner), fences.migrate(&owner), fences.migrate(&owner));
    for made in [made.0, made.1, made.2, fences.migrate(&owner).await] {
        made.expect("a table");
    }
    let error = database.write(LEVELS[0], &guard, "text").await.expect_err("no right");
    assert!(matches!(error, FenceError::RightMissing { .. }), "{error:?}");
    assert!(error.to_string().contains("GRANT SELECT, INSERT, UPDATE"), "{error}");
    database.server.sql(format!("GRANT SELECT, INSERT, UPDATE ON {name}.lock_fences TO {name}"));
    database.write(LEVELS[0], &guard, "text").await.expect("it may");
    Fences::default().migrate(&database.pool).await.expect("it is there already");

    for columns in
        ["resource text, height bigint", "resource text, fence bigint", "resource text, fence text"]
    {
        let database = Database::without_fences().await;
        database.server.sql(format!(
            "CREATE TABLE {0}.lock_fences ({columns}); GRANT ALL ON {0}.lock_fences TO {0}",
            database.name
        ));
        let error = database.write(LEVELS[0], &guard, "text").await.expect_err("another table");
        assert!(matches!(error, FenceError::TableShape { .. }), "{columns}: {error:?}");
        assert_eq!(database.text().await, "empty");
    }
}
