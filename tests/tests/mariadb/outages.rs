//! Servers that refuse what they are asked for, for a while.

use lock_core::sql::{self, DatabaseError};
use sqlx::Row;
use tests::wait::{eventually, within};

use crate::support::*;
use crate::troubles::say;

/// F30 (V4, V8): a holder's row is locked by a stranger for longer than a statement waits (1205). The
/// renewal is asked again for as long as the lease lasts, and the hold is kept where the stranger ends
/// in time; a release is told that it was not heard, and is done.
#[tokio::test]
async fn a_holder_whose_row_a_stranger_keeps_is_renewed_behind_it() {
    let place = Place::new();
    let locks = connect(&place.new_url(), ms(9_000)).await;
    let guard = locks.lock("k").await.expect("a free key");
    let mut stranger = place.stranger().await;
    let row = format!("BEGIN; SELECT 1 FROM {} WHERE name = 'k' FOR UPDATE", place.table);
    say(&mut stranger, row).await;
    let ended = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
                 WHERE variable_name = 'Innodb_row_lock_waits'";
    let waits = || place.server.sql(ended)[0].get::<i64, _>(0);
    // Others wait on this server as well, so this is no more than some time at work.
    let before = waits();
    eventually("it has waited in vain", || waits() > before + 1).await;
    say(&mut stranger, "ROLLBACK".to_owned()).await;
    let renewals = locks.stats().renewals;
    eventually("it is renewed", || locks.stats().renewals > renewals).await;
    assert!(guard.is_held());
    guard.release().await.expect("a release");
    assert_eq!(locks.stats().lost, 0);
    idle(&locks).await;
}

/// F30 (V4): what Galera says when the nodes do not agree at the commit (1213, where nobody waited for a
/// lock) undoes the statement, which is asked again: each verb is done once.
#[tokio::test]
async fn a_commit_that_a_cluster_refuses_is_asked_again() {
    let place = Place::new();
    let (locks, table) = (place.client().await, &place.table);
    locks.lock("k").await.expect("a free key").release().await.expect("a release");
    // A count that no rollback undoes: the engine has no transactions.
    place.server.sql(format!(
        "CREATE TABLE left_{table} (id int PRIMARY KEY, n int) ENGINE = MyISAM; \
         INSERT INTO left_{table} VALUES (1, 0)"
    ));
    place.server.sql(format!(
        "CREATE TRIGGER refuse_{table} AFTER UPDATE ON {table} FOR EACH ROW BEGIN \
           UPDATE left_{table} SET n = n - 1; \
           IF (SELECT n FROM left_{table}) >= 0 THEN \
             SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, \
             MESSAGE_TEXT = 'Deadlock: wsrep aborted transaction'; \
           END IF; \
         END"
    ));
    let refuse = |times: u32| {
        place.server.sql(format!("UPDATE left_{table} SET n = {times}"));
    };
    let left = || {
        let rows = place.server.sql(format!("SELECT n FROM left_{table}"));
        rows[0].get::<i32, _>(0)
    };
    // The first and the last token of the block that was granted.
    let tokens = || {
        let text = format!("SELECT fence - fences + 1, fence FROM {table} WHERE name = 'k'");
        let rows = place.server.sql(text);
        (rows[0].get::<i64, _>(0), rows[0].get::<i64, _>(1))
    };
    refuse(3);
    let guard = locks.lock("k").await.expect("it was asked again");
    assert!(left() < 0, "it was not refused");
    assert_eq!(tokens().0, i64::from(guard.token()), "it was granted twice");
    refuse(3);
    guard.release().await.expect("it was asked again");
    assert!(left() < 0, "it was not refused");
    // For longer than anybody asks: nothing was done.
    refuse(1_000_000);
    let before = tokens();
    locks.lock("k").options(once()).try_acquire().await.expect_err("it is refused");
    eventually("it is given up", || locks.stats().keys == 0).await;
    assert_eq!(tokens(), before);
    refuse(0);
    locks.lock("k").await.expect("a free key").release().await.expect("a release");
    idle(&locks).await;
}

/// F28 (V8): a server whose disk is full says so (1114), and that is told. Who holds a key keeps it, as a
/// renewal finds room in the page of its row, and keys are granted again when there is room.
///
/// A trigger says it: MariaDB 10.11 ends itself where its disk is full in earnest (`Out of disk space in
/// rollback`), and is one that was killed then.
#[tokio::test]
async fn a_full_disk_is_told_and_is_gone_when_there_is_room() {
    let place = Place::new();
    let (locks, table) = (connect(&place.new_url(), ms(9_000)).await, &place.table);
    let guard = locks.lock("held").await.expect("a free key");
    place.server.sql(format!(
        "CREATE TRIGGER full_{table} BEFORE INSERT ON {table} FOR EACH ROW \
         IF NOT EXISTS (SELECT 1 FROM {table} WHERE name = NEW.name) THEN \
           SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table is full'; \
         END IF"
    ));
    let error = locks.lock("new").options(once()).try_acquire().await.expect_err("no room");
    let error = database_error(&error);
    assert!(matches!(error, DatabaseError::ServerFull { .. }), "{error}");
    let renewals = locks.stats().renewals;
    eventually("it is renewed", || locks.stats().renewals > renewals + 1).await;
    assert!(guard.is_held());
    place.server.sql(format!("DROP TRIGGER full_{table}"));
    let next = within("a free key", locks.lock("new").acquire()).await;
    next.expect("a free key").release().await.expect("a release");
    guard.release().await.expect("a release");
    idle(&locks).await;
}

/// F30 (V4, V8): a server that is made read-only while it serves is told as that, and serves again.
#[tokio::test]
async fn a_server_that_becomes_read_only_is_told_and_serves_again() {
    let place = Place::alone();
    // Not the owner, who may write in any case.
    let user = place.new_user();
    sql::migrate(&place.url()).await.expect("the tables");
    place.server.sql(format!("GRANT ALL ON shop.* TO {user}"));
    let locks = connect(&place.url_as(&user), ms(9_000)).await;
    let guard = locks.lock("k").await.expect("a free key");
    place.server.sql("SET GLOBAL read_only = 1");
    let error = locks.lock("other").options(once()).try_acquire().await.expect_err("no writes");
    let error = database_error(&error);
    assert!(matches!(error, DatabaseError::ReadOnlyServer { .. }), "{error}");
    assert!(guard.is_held());
    place.server.sql("SET GLOBAL read_only = 0");
    let next = within("a grant", locks.lock("other").acquire()).await.expect("it takes writes");
    next.release().await.expect("a release");
    guard.release().await.expect("a release");
}
