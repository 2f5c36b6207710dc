//! Troubles of this database alone: each is told, with what to do.

use lock_core::LockClient;
use lock_core::sql::{self, DatabaseError};
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
    let mut given = Vec::new();
    for right in ["SELECT", "INSERT", "UPDATE", "DELETE"] {
        let error = refused(&url).await;
        let text = error.to_string();
        assert!(matches!(error, DatabaseError::RightMissing { .. }), "{text}");
        assert!(text.contains(right) && text.contains(&user), "{text}");
        assert!(given.iter().all(|given: &&str| !text.contains(*given)), "{text}");
        place.server.sql(format!("GRANT {right} ON {table} TO {user}"));
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
/// not know.
#[tokio::test]
async fn a_server_that_is_of_no_use_is_refused_at_connect() {
    let place = Place::new();
    let user = place.new_user();
    sql::migrate(&place.url()).await.expect("the tables");
    place.server.sql(format!("ALTER ROLE {user} SET default_transaction_read_only = on"));
    let error = refused(&place.url_as(&user)).await;
    assert!(matches!(error, DatabaseError::ReadOnlyServer { why: "read-only", .. }), "{error}");
    let nowhere = place.url().replace("/postgres?", "/no_such_shop?");
    let error = refused(&nowhere).await;
    assert!(matches!(error, DatabaseError::DatabaseMissing { .. }), "{error}");
    let error = refused(&place.url_as("nobody_here")).await;
    assert!(matches!(error, DatabaseError::Login { .. }), "{error}");
    let error = LockClient::connect("postgres://h/db?durability=some").await.expect_err("no word");
    assert!(error.to_string().contains("`durability` is"), "{error}");
    let error = LockClient::connect("postgres://h/db?table=Locks").await.expect_err("a plain name");
    assert!(error.to_string().contains("`table` is a name"), "{error}");
}

/// V4, V8: a statement that an administrator cancels is told as that.
#[tokio::test]
async fn a_statement_that_the_server_ends_is_told() {
    let place = Place::new();
    let locks = place.client().await;
    locks.lock("k").await.expect("a free key").release().await.expect("a release");
    let mut stranger = place.stranger().await;
    let row = format!("BEGIN; SELECT FROM {} WHERE name = 'k' FOR UPDATE", place.table);
    say(&mut stranger, row).await;
    let trying = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lock("k").options(once().with_wait(ms(4_000))).try_acquire().await }
    });
    let cancel = format!(
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity \
         WHERE wait_event_type = 'Lock' AND query LIKE '%{}%'",
        place.table
    );
    eventually("the statement waits", || !place.server.sql(&*cancel).is_empty()).await;
    let error = trying.await.expect("no panic").expect_err("it was cancelled");
    let error = database_error(&error);
    assert!(matches!(error, DatabaseError::StatementEnded { .. }), "{error}");
    say(&mut stranger, "ROLLBACK".to_owned()).await;
    locks.lock("k").await.expect("a free key").release().await.expect("a release");
}

/// F28 (V8): a full disk is told as one. Who holds a key keeps it, as a renewal finds room in the page of
/// its row, and keys are granted again when there is room.
#[tokio::test]
async fn a_full_disk_is_told_and_is_gone_when_there_is_room() {
    let server = Server::with(Options::new().small_disk());
    server.sql(format!("CREATE TABLESPACE small LOCATION '{}'", server.small_disk().display()));
    let url = server.url_as("postgres");
    let script = sql::schema(&url).expect("a script").to_string();
    server.sql(format!(
        "SET default_tablespace = small; {script} CREATE TABLE filler (text text); \
         ALTER TABLE filler ALTER text SET STORAGE EXTERNAL; RESET default_tablespace"
    ));
    let locks = connect(&url, ms(9_000)).await;
    let guard = locks.lock("held").await.expect("a free key");
    let fill = "INSERT INTO filler SELECT repeat('x', 100000) FROM generate_series(1, 10)";
    let full = loop {
        if let Err(error) = server.try_sql(fill) {
            break error;
        }
    };
    let code = full.as_database_error().and_then(|error| error.code());
    assert_eq!(code.as_deref(), Some("53100"), "{full}");
    // The pages that are there have room for some keys.
    while server.try_sql("INSERT INTO filler VALUES (repeat('x', 1000))").is_ok() {}
    let mut error = None;
    for n in 0..2_000 {
        match locks.lock(format!("k{n}")).options(once()).try_acquire().await {
            Ok(taken) => taken.expect("a free key").release().await.expect("a release"),
            Err(refused) => {
                error = Some(database_error(&refused));
                break;
            }
        }
    }
    let error = error.expect("there is no room for so many rows");
    assert!(matches!(error, DatabaseError::ServerFull { .. }), "{error}");
    let renewals = locks.stats().renewals;
    eventually("it is renewed", || locks.stats().renewals > renewals + 1).await;
    assert!(guard.is_held());
    server.sql("DROP TABLE filler; CHECKPOINT");
    let next = within("a free key", locks.lock("there-is-room").acquire()).await;
    next.expect("a free key").release().await.expect("a release");
    guard.release().await.expect("a release");
    idle(&locks).await;
}
