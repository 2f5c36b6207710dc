//! Troubles that each server of a database can be in: each is told, with what to do.

use lock_core::LockClient;
use lock_core::sql::{self, DatabaseError};
use sqlx::AssertSqlSafe;

use crate::support::*;

pub(crate) async fn say(connection: &mut Stranger, text: String) {
    sqlx::raw_sql(AssertSqlSafe(text)).execute(connection).await.expect("good statements");
}

/// V8: a table that is missing is not made unasked; `migrate` makes it, however many call it at once,
/// and what it needs is a script.
#[tokio::test]
async fn a_missing_table_is_told_and_made_where_that_is_asked_for() {
    let place = Place::new();
    let error = refused(&place.url()).await;
    assert!(matches!(error, DatabaseError::TableMissing { .. }), "{error}");
    assert!(error.to_string().contains("migrate()") && error.to_string().contains("create=true"));
    let url = place.url();
    let (one, two, three) =
        tokio::join!(sql::migrate(&url), sql::migrate(&url), sql::migrate(&url));
    for made in [one, two, three, sql::migrate(&url).await] {
        made.expect("the tables");
    }
    LockClient::connect(&url).await.expect("they are there");
    // Beside it, by hand.
    let beside = place.url_beside();
    place.server.sql(sql::schema(&beside).expect("a script").to_string());
    let locks = LockClient::connect(&beside).await.expect("they are there");
    let (one, other) = (locks.lock("k").await, connect(&url, ms(9_000)).await.lock("k").await);
    one.expect("a free key").release().await.expect("a release");
    other.expect("another table").release().await.expect("a release");
}

/// V8: a table of that name which is somebody else's is left alone.
#[tokio::test]
async fn a_table_of_another_shape_is_told_and_left_as_it_is() {
    for (columns, what) in SHAPES {
        let place = Place::new();
        let table = &place.table;
        place.server.sql(format!("CREATE TABLE {table} ({columns})"));
        place.server.sql(format!("INSERT INTO {table} (name) VALUES ('theirs')"));
        let error = refused(&place.url()).await;
        let text = error.to_string();
        assert!(matches!(error, DatabaseError::TableShape { .. }), "{text}");
        assert!(text.contains(what) && text.contains("?table="), "{text}");
        assert_eq!(place.server.sql(format!("SELECT name FROM {table}")).len(), 1);
    }
}

/// V4, V8: a row that a stranger's transaction has locked is told as that. Who holds another key is
/// not held up, and all is well when the stranger is done.
#[tokio::test]
async fn a_row_that_a_stranger_keeps_locked_is_told_and_is_served_again() {
    let place = Place::new();
    let locks = place.client().await;
    let other = locks.lock("other").await.expect("a free key");
    locks.lock("k").await.expect("a free key").release().await.expect("a release");
    let mut stranger = place.stranger().await;
    let row = format!("BEGIN; SELECT 1 FROM {} WHERE name = 'k' FOR UPDATE", place.table);
    say(&mut stranger, row).await;
    let wait = once().with_wait(ms(4_000));
    let error = locks.lock("k").options(wait).acquire().await.expect_err("a locked row");
    let error = database_error(&error);
    assert!(matches!(error, DatabaseError::RowLocked { .. }), "{error}");
    locks.lock("third").await.expect("a free key").release().await.expect("a release");
    say(&mut stranger, "ROLLBACK".to_owned()).await;
    let next = locks.lock("k").await.expect("a free key");
    assert!(other.is_held());
    next.release().await.expect("a release");
    other.release().await.expect("a release");
    idle(&locks).await;
}

/// F17 (V4, V8): where strangers have all connections of the server, a new client is told so, and one
/// that has some goes on.
#[tokio::test]
async fn a_server_without_a_connection_to_spare_is_told_and_serves_those_who_have_some() {
    let server = Server::with(Options::new().setting("max_connections", "10"));
    server.sql(MAKES_APP);
    let url = format!("{}?create=true", server.url_as("app"));
    let locks = connect(&url, ms(30_000)).await;
    let guard = locks.lock("k").await.expect("a free key");
    let mut strangers = Vec::new();
    let as_app = server.options().username("app");
    while let Ok(stranger) = sqlx::ConnectOptions::connect(&as_app).await {
        strangers.push(stranger);
    }
    let error = refused(&url).await;
    assert!(matches!(error, DatabaseError::Connections { .. }), "{error}");
    // All at once, though the pool cannot grow.
    let tasks: Vec<_> = (0..16)
        .map(|n| {
            let locks = locks.clone();
            tokio::spawn(async move { locks.lock(format!("k{n}")).await })
        })
        .collect();
    for task in tasks {
        let guard = task.await.expect("no panic").expect("a grant");
        guard.release().await.expect("a release");
    }
    assert!(guard.is_held());
    guard.release().await.expect("a release");
    drop(strangers);
}
