//! Writes that a stale holder cannot commit, in transactions of MariaDB.

use lock_core::sql::{FenceError, Fences};
use lock_core::{LockClient, LockGuard};
use sqlx::{AssertSqlSafe, MySql, MySqlPool, Transaction};
use tests::wait::{eventually, within};

use crate::support::*;

/// How the application's transactions are isolated.
const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// The resource that is written, and fenced.
const DOCUMENT: &str = "document:1";

/// An application with a document, whose login may do no more than it must.
struct Database {
    place: Place,
    pool: MySqlPool,
}

impl Database {
    async fn new() -> Self {
        let place = Place::new();
        let (table, user) = (&place.table, place.new_user());
        let fences = Fences::in_table(&format!("f_{table}")).expect("a name");
        place.server.sql(fences.statements::<MySql>().join(";"));
        place.server.sql(format!(
            "CREATE TABLE d_{table} (id int PRIMARY KEY, text varchar(99)); \
             INSERT INTO d_{table} VALUES (1, 'empty'); \
             GRANT SELECT, INSERT, UPDATE ON shop.f_{table} TO {user}; \
             GRANT SELECT, UPDATE ON shop.d_{table} TO {user}"
        ));
        let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(4);
        let pool = pool.connect_with(place.server.options().username(&user)).await;
        Self { pool: pool.expect("a server"), place }
    }

    fn fences(&self) -> Fences {
        Fences::in_table(&format!("f_{}", self.place.table)).expect("a name")
    }

    async fn begin(&self, level: &str) -> Transaction<'static, MySql> {
        let begin = format!("SET TRANSACTION ISOLATION LEVEL {level}; START TRANSACTION");
        self.pool.begin_with(AssertSqlSafe(begin)).await.expect("a transaction")
    }

    async fn put(&self, tx: &mut Transaction<'static, MySql>, text: &str) {
        let update = format!("UPDATE d_{} SET text = ? WHERE id = 1", self.place.table);
        let update = sqlx::query(AssertSqlSafe(update)).bind(text.to_owned());
        update.execute(&mut **tx).await.expect("an update");
    }

    async fn text(&self) -> String {
        let text = format!("SELECT text FROM d_{} WHERE id = 1", self.place.table);
        sqlx::query_scalar(AssertSqlSafe(text)).fetch_one(&self.pool).await.expect("a document")
    }

    async fn write(&self, level: &str, guard: &LockGuard, text: &str) -> Result<(), FenceError> {
        let mut tx = self.begin(level).await;
        self.fences().check(&mut tx, guard.token(), DOCUMENT).await?;
        self.put(&mut tx, text).await;
        tx.commit().await.expect("a commit");
        Ok(())
    }
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
}

/// V2: once the newer of two holders has written, the older is refused, also behind a snapshot in which
/// nobody has written yet.
#[tokio::test]
async fn at_each_level_the_older_of_two_holders_is_refused_once_the_newer_has_written() {
    for level in LEVELS {
        let database = Database::new().await;
        let (older, newer) = two_holders(&database.place.client().await).await;
        database.write(level, &older, "older").await.expect("nobody has written yet");
        let mut snapshot = database.begin(level).await;
        let read = format!("SELECT fence FROM f_{}", database.place.table);
        // At *serializable* the read locks the row, and the newer one would wait for it.
        if level != "SERIALIZABLE" {
            let read = sqlx::query(AssertSqlSafe(read)).fetch_all(&mut *snapshot).await;
            assert_eq!(read.expect("a row").len(), 1);
        }
        database.write(level, &newer, "newer").await.expect("the newer may write");
        database.write(level, &newer, "again").await.expect("and once more");
        assert_stale(database.fences().check(&mut snapshot, older.token(), DOCUMENT).await);
        drop(snapshot);
        assert_stale(database.write(level, &older, "older").await);
        assert_eq!(database.text().await, "again", "{level}");
    }
}

/// V2: of two that write at once the second waits for the first one's commit, and is refused if it is
/// the older one. A rollback leaves no mark.
#[tokio::test]
async fn of_two_that_write_at_once_the_older_comes_first_or_not_at_all() {
    for level in LEVELS {
        for commits in [true, false] {
            let database = Database::new().await;
            let (older, newer) = two_holders(&LockClient::memory()).await;
            let mut tx = database.begin(level).await;
            database.fences().check(&mut tx, newer.token(), DOCUMENT).await.expect("it is held");
            database.put(&mut tx, "newer").await;
            let late = within("the older one", database.write(level, &older, "older"));
            let waits = format!(
                "SELECT 1 FROM information_schema.processlist \
                 WHERE info LIKE 'INSERT INTO f_{} %' AND time_ms > 20",
                database.place.table
            );
            let (late, ()) = tokio::join!(late, async {
                eventually("it waits", || !database.place.server.sql(&*waits).is_empty()).await;
                match commits {
                    true => tx.commit().await.expect("a commit"),
                    false => tx.rollback().await.expect("a rollback"),
                }
            });
            match commits {
                true => assert_stale(late),
                false => late.expect("nobody has written"),
            }
            let text = if commits { "newer" } else { "older" };
            assert_eq!(database.text().await, text, "{level}");
        }
    }
}

/// V8: a table of the fences that is missing, or that the login may not use, is told.
#[tokio::test]
async fn a_table_of_fences_that_is_of_no_use_is_told() {
    let database = Database::new().await;
    let guard = LockClient::memory().lock(DOCUMENT).await.expect("a free key");
    let mut tx = database.begin(LEVELS[1]).await;
    let error = guard.fence(&mut tx, DOCUMENT).await.expect_err("no right to another table");
    assert!(matches!(error, FenceError::RightMissing { .. }), "{error:?}");
    drop(tx);
    let owners = MySqlPool::connect_with(database.place.server.options()).await.expect("a pool");
    let missing = Fences::in_table("no_such_fences").expect("a name");
    let mut tx = owners.begin().await.expect("a transaction");
    let error = missing.check(&mut tx, guard.token(), DOCUMENT).await.expect_err("no table");
    assert!(matches!(error, FenceError::TableMissing { .. }), "{error:?}");
}

/// MariaDB ends a transaction with a statement that defines a table, and sqlx does not hear of it. What
/// comes next would commit by itself, the check too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_the_server_has_ended_is_fenced_no_more() {
    let database = Database::new().await;
    let (locks, fences) = (LockClient::memory(), database.fences());
    let guard = locks.lock("k").await.expect("a free key");
    for level in LEVELS {
        let mut tx = database.begin(level).await;
        fences.check(&mut tx, guard.token(), DOCUMENT).await.expect("it is open");
        sqlx::raw_sql("COMMIT").execute(&mut *tx).await.expect("it is ended");
        let refused = fences.check(&mut tx, guard.token(), DOCUMENT).await;
        assert!(matches!(refused, Err(FenceError::NoTransaction { .. })), "{refused:?}");
    }
}

/// V8: a table of fences that is kept by an engine without transactions holds up nobody: it is told, by
/// `migrate` and by a check, with the engine.
#[tokio::test]
async fn a_table_of_fences_without_transactions_is_told() {
    let database = Database::new().await;
    let owners = MySqlPool::connect_with(database.place.server.options()).await.expect("a pool");
    let guard = LockClient::memory().lock(DOCUMENT).await.expect("a free key");
    for engine in ["Aria", "MyISAM"] {
        let name = format!("e_{}", database.place.table);
        let fences = Fences::in_table(&name).expect("a name");
        let script = fences.statements::<sqlx::MySql>().join(";").replace("InnoDB", engine);
        database.place.server.sql(script);
        let migrated = fences.migrate(&owners).await.expect_err("no transactions");
        let mut tx = owners.begin().await.expect("a transaction");
        let checked = fences.check(&mut tx, guard.token(), DOCUMENT).await;
        let checked = checked.expect_err("no transactions");
        // One that is dropped ends when its connection is used again, and keeps the table until then.
        tx.rollback().await.expect("a rollback");
        for error in [migrated, checked] {
            let text = error.to_string();
            assert!(matches!(error, FenceError::TableEngine { .. }), "{text}");
            assert!(text.contains(engine) && text.contains(&name), "{text}");
            assert!(!error.is_stale() && !error.is_retryable());
        }
        database.place.server.sql(format!("DROP TABLE {name}"));
    }
}
