//! Troubles of this database alone: each is told, with what to do.

use lock_core::LockClient;
use lock_core::sql::{self, DatabaseError};
use sqlx::Row;
use tests::wait::{eventually, within};

use crate::support::*;
use crate::troubles::say;

/// V8: the rights that are named in the docs are enough for all of it, and one that is missing is
/// named with how to give it.
#[tokio::test]
async fn a_role_with_the_least_rights_is_served_and_a_missing_right_is_named() {
    let place = Place::new();
    let (table, user) = (&place.table, place.new_user());
    sql::migrate(&place.url()).await.expect("the tables");
    let url = place.url_as(&user);
    let error = refused(&url).await;
    let text = error.to_string();
    assert!(matches!(error, DatabaseError::RightMissing { .. }), "{text}");
    assert!(text.contains("GRANT SELECT, INSERT, UPDATE, DELETE ON `shop`"), "{text}");
    place.server.sql(format!("GRANT SELECT ON shop.{table} TO {user}"));
    let mut given = vec!["SELECT"];
    for right in ["INSERT", "UPDATE", "DELETE"] {
        let error = refused(&url).await;
        let text = error.to_string();
        assert!(matches!(error, DatabaseError::RightMissing { .. }), "{text}");
        assert!(text.contains(right) && text.contains(&format!("TO '{user}'@'%'")), "{text}");
        let grant = text.split('`').find(|part| part.starts_with("GRANT")).expect("a grant");
        assert!(given.iter().all(|given| !grant.contains(given)), "{text}");
        place.server.sql(format!("GRANT {right} ON shop.{table} TO {user}"));
        given.push(right);
    }
    // Nothing is made where all is there, so that needs no right either.
    let (one, two) =
        (connect(&url, ms(9_000)).await, connect(&(url + "&create=true"), ms(9_000)).await);
    let guard = one.lock("k").await.expect("a free key");
    let waiting = tokio::spawn(async move { two.lock("k").await });
    eventually("it waits", || {
        let seen = futures_executor::block_on(one.inspect("k"));
        seen.is_ok_and(|seen| seen.waiters.len() == 1)
    })
    .await;
    guard.release().await.expect("a release");
    let next = within("a hand-off", waiting).await.expect("no panic").expect("a grant");
    next.release().await.expect("a release");
}

/// V8: a server that takes no writes is refused at connect; so are a database and a login that it does
/// not know, and what it cannot do for a connection.
#[tokio::test]
async fn a_server_that_is_of_no_use_is_refused_at_connect() {
    let place = Place::alone();
    sql::migrate(&place.url()).await.expect("the tables");
    let error = refused(&place.url().replace("/shop?", "/no_such_shop?")).await;
    assert!(matches!(error, DatabaseError::DatabaseMissing { .. }), "{error}");
    let error = refused(&place.url_as("nobody_here")).await;
    assert!(matches!(error, DatabaseError::Login { .. }), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    let error = refused(&format!("{}&durability=async", place.url())).await;
    assert!(matches!(error, DatabaseError::Option { .. }), "{error}");
    assert!(error.to_string().contains("innodb_flush_log_at_trx_commit"), "{error}");
    let locks = place.client().await;
    let guard = locks.lock("k").await.expect("a free key");
    place.server.sql("SET GLOBAL read_only = 1");
    let error = refused(&place.url()).await;
    assert!(matches!(error, DatabaseError::ReadOnlyServer { .. }), "{error}");
    place.server.sql("SET GLOBAL read_only = 0");
    guard.release().await.expect("a release");
    let error = LockClient::connect("mysql://h/db?durability=some").await.expect_err("no word");
    assert!(error.to_string().contains("`durability` is"), "{error}");
    let error = LockClient::connect("mariadb://h/db?table=Locks").await.expect_err("a plain name");
    assert!(error.to_string().contains("`table` is a name"), "{error}");
    let error = LockClient::connect("mysql://h").await.expect_err("no database");
    assert!(error.to_string().contains("name of a database"), "{error}");
}

/// V4: a deadlock that a stranger's transaction makes ends one of the two; where that is a statement
/// of the store, it is asked again.
#[tokio::test]
async fn a_statement_that_a_deadlock_ends_is_asked_again() {
    let place = Place::new();
    let (locks, table) = (place.client().await, &place.table);
    locks.lock("k").await.expect("a free key").release().await.expect("a release");
    let before = deadlocks(&place);
    // A trigger makes the one row of our statement two, which is what a deadlock takes.
    place.server.sql(format!(
        "CREATE TABLE two_{table} (id int PRIMARY KEY, n int); \
         INSERT INTO two_{table} VALUES (1, 0)"
    ));
    place.server.sql(format!(
        "CREATE TRIGGER after_{table} AFTER UPDATE ON {table} FOR EACH ROW \
         UPDATE two_{table} SET n = n + 1"
    ));
    let mut stranger = place.stranger().await;
    // A transaction of much weight, so that the server ends the other one.
    let heavy = format!(
        "BEGIN; INSERT INTO two_{table} \
         WITH RECURSIVE n AS (SELECT 2 AS id UNION ALL SELECT id + 1 FROM n WHERE id < 900) \
         SELECT id, 0 FROM n; UPDATE two_{table} SET n = 1 WHERE id = 1"
    );
    let waits = format!(
        "SELECT 1 FROM information_schema.processlist \
         WHERE info = 'UPDATE two_{table} SET n = n + 1' AND time_ms > 50"
    );
    // On a busy machine a wait may end before the stranger wants the row as well.
    for _ in 0..10 {
        say(&mut stranger, heavy.clone()).await;
        let trying = tokio::spawn({
            let locks = locks.clone();
            async move { locks.lock("k").options(once().with_wait(ms(20_000))).await }
        });
        eventually("the statement waits", || !place.server.sql(&*waits).is_empty()).await;
        let crossed = format!("SELECT 1 FROM {table} WHERE name = 'k' FOR UPDATE; ROLLBACK");
        say(&mut stranger, crossed).await;
        let guard = trying.await.expect("no panic").expect("it was asked again");
        guard.release().await.expect("a release");
        if deadlocks(&place) > before {
            return;
        }
    }
    panic!("there was no deadlock");
}

fn deadlocks(place: &Place) -> i64 {
    let count = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
                 WHERE variable_name = 'Innodb_deadlocks'";
    place.server.sql(count)[0].get(0)
}

/// V8: a table of the locks that is kept by an engine without transactions is told, with the engine; so
/// is a server that logs by statements, on which no lock could be written.
#[tokio::test]
async fn a_table_without_transactions_and_a_log_of_statements_are_told() {
    for engine in ["Aria", "MyISAM"] {
        let place = Place::new();
        let script = sql::schema(&place.url()).expect("a script");
        let table = script.statements()[0].replace("InnoDB", engine);
        place.server.sql(table);
        let error = refused(&place.url()).await;
        let text = error.to_string();
        assert!(matches!(error, DatabaseError::TableEngine { .. }), "{text}");
        assert!(text.contains(engine) && text.contains(&place.table), "{text}");
        place.server.sql(format!("ALTER TABLE {} ENGINE = InnoDB", place.table));
        LockClient::connect(&place.url()).await.expect("it has transactions now");
    }
    let options = Options::new().setting("log-bin", "log");
    let server = Server::with(options.setting("binlog-format", "STATEMENT"));
    let error = refused(&server.url()).await;
    let text = error.to_string();
    assert!(matches!(error, DatabaseError::Option { .. }), "{text}");
    assert!(text.contains("SET GLOBAL binlog_format = 'MIXED'"), "{text}");
    server.sql("SET GLOBAL binlog_format = 'MIXED'");
    let locks = connect(&server.url(), ms(30_000)).await;
    locks.lock("k").await.expect("a free key").release().await.expect("a release");
}
