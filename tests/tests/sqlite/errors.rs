//! Troubles of a file or its tables: each is told with what to do, and nothing is lost by it.

use lock_core::LockClient;
use lock_core::sql::{self, DatabaseError, SqliteConfig, TableName};
use sqlx::Connection;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::sqlite::SqlitePoolOptions;
use tests::wait::within;

use crate::support::*;

/// V8: nothing is made unasked, and each way to make it does.
#[tokio::test]
async fn a_file_or_a_table_that_is_missing_is_told_with_how_to_make_it() {
    let place = Place::new();
    let error = refused(&place.url()).await;
    assert!(matches!(error, DatabaseError::FileMissing { .. }), "{error}");
    assert!(error.to_string().contains("?create=true"), "{error}");
    assert!(!place.path().exists());
    // A file of the service's own, without our table.
    place.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    let error = refused(&place.url()).await;
    assert_eq!(error, DatabaseError::TableMissing { table: "lock_leases".to_owned() });
    let text = error.to_string();
    for way in ["migrate()", "schema()", "?create=true"] {
        assert!(text.contains(way), "{text}");
    }
    // By the script, by `migrate`, and by the URL.
    let script = sql::schema(&place.url()).expect("a good URL").to_string();
    let mut connection = place.connection().await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(script)).execute(&mut connection).await.expect("a script");
    LockClient::connect(&place.url()).await.expect("the table is there");
    let other = place.url() + "?table=shop_locks";
    assert!(matches!(refused(&other).await, DatabaseError::TableMissing { .. }));
    for _ in 0..2 {
        sql::migrate(&other).await.expect("the table is made once");
    }
    LockClient::connect(&other).await.expect("the table is there");
    LockClient::connect(&(place.url() + "?table=third&create=true")).await.expect("it is made");
}

/// V8: a table that is somebody else's is left as it is.
#[tokio::test]
async fn a_table_of_another_shape_is_left_as_it_is() {
    for (made, what) in [
        ("CREATE TABLE lock_leases (name TEXT PRIMARY KEY, owner TEXT)", "no column `version`"),
        (
            "CREATE TABLE lock_leases (name TEXT, version TEXT, fence INTEGER, fences INTEGER, \
             holder TEXT, about TEXT, until INTEGER, holders TEXT, line TEXT)",
            "`version` is no INTEGER",
        ),
    ] {
        for also in ["", "?create=true"] {
            let place = Place::new();
            place.execute(made).await;
            place.execute("INSERT INTO lock_leases (name) VALUES ('theirs')").await;
            let url = place.url() + also;
            let error = if also.is_empty() {
                refused(&url).await
            } else {
                // The view cannot be made of such a table, or the table is looked at first.
                let error = LockClient::connect(&url).await.expect_err("another's table");
                database_error(&error)
            };
            let text = error.to_string();
            assert!(matches!(error, DatabaseError::TableShape { .. }), "{text}");
            assert!(text.contains(what) && text.contains("?table="), "{text}");
            let mut connection = place.connection().await;
            let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM lock_leases")
                .fetch_one(&mut connection)
                .await
                .expect("their table");
            assert_eq!(rows, 1);
        }
    }
}

/// V8: a folder, a folder on the way that is missing, and a file of another kind.
#[tokio::test]
async fn a_path_that_is_no_database_is_told_as_what_it_is() {
    let place = Place::new();
    std::fs::create_dir(place.path()).expect("a folder");
    for url in [place.url(), place.new_url()] {
        let error = refused(&url).await;
        assert!(matches!(error, DatabaseError::Folder { .. }), "{error}");
        assert!(error.to_string().contains("is a folder"), "{error}");
    }
    let below = format!("sqlite://{}/no/such/locks.db?create=true", place.path().display());
    let error = refused(&below).await;
    assert!(matches!(error, DatabaseError::CannotOpen { .. }), "{error}");
    let text = Place::new();
    std::fs::write(text.path(), "a text that is longer than the head of a database".repeat(99))
        .expect("a file");
    for url in [text.url(), text.new_url()] {
        let error = refused(&url).await;
        assert!(matches!(error, DatabaseError::NoDatabase { .. }), "{error}");
    }
}

/// V8: a file that may not be written is no place for a lock.
#[tokio::test]
async fn a_file_that_is_read_only_is_refused_at_connect() {
    let place = Place::new();
    sql::migrate(&place.url()).await.expect("the tables");
    let options = SqliteConnectOptions::new().filename(place.path()).read_only(true);
    let pool = SqlitePoolOptions::new().connect_with(options).await.expect("a pool");
    let error = SqliteConfig::of_pool(&pool).connect().await.expect_err("it is read-only");
    let error = database_error(&error);
    assert!(matches!(error, DatabaseError::ReadOnly { .. }), "{error}");
    assert!(error.to_string().contains("read-only"), "{error}");
}

/// The error of a file that others keep busy. A try and its request have the same 2 s: which of them
/// ends first is chance, and the next try may meet a request that has not ended.
async fn busy(locks: &LockClient) -> DatabaseError {
    let wait = once().with_wait(ms(3_000));
    loop {
        let error = locks.lock("k").options(wait).acquire().await.expect_err("a busy file");
        if let Some(error @ DatabaseError::Busy { .. }) = found_of_database(&error) {
            return error;
        }
    }
}

/// V8: who waits is told that others have the file, and what to do; nothing was lost, and all
/// is well when they let go of it.
#[tokio::test]
async fn a_file_that_others_keep_busy_is_told_and_is_served_again() {
    let place = Place::new();
    let locks = place.client().await;
    let guard = locks.lock("held").await.expect("a free key");
    let mut other = place.connection().await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.expect("a transaction");
    let error = within("that it is busy", busy(&locks)).await.to_string();
    assert!(error.contains("keeps a write transaction open"), "{error}");
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.expect("its end");
    let next = locks.lock("k").await.expect("a free key");
    assert!(guard.is_held());
    guard.release().await.expect("a release");
    next.release().await.expect("a release");
    other.close().await.expect("a connection");
    idle(&locks).await;
}

/// V8, V6: a full disk is told as one, nothing was written, and locks go on by themselves.
#[tokio::test]
async fn a_full_disk_is_told_and_is_gone_when_there_is_room() {
    let place = Place::new();
    sql::migrate(&place.url()).await.expect("the tables");
    // SQLite says the same of a file that may grow no further.
    let full = SqliteConnectOptions::new().filename(place.path()).pragma("max_page_count", "1");
    let pool = SqlitePoolOptions::new().connect_lazy_with(full);
    let store = SqliteConfig::of_pool(&pool).connect().await.expect("it is there");
    let locks = LockClient::builder_with(store).defaults(once()).connect().await.expect("a client");
    let mut told = None;
    let mut guards = Vec::new();
    for n in 0..2_000 {
        match locks.lock(format!("a-key-that-takes-some-room:{n}:{}", "x".repeat(300))).await {
            Ok(guard) => guards.push(guard),
            Err(error) => {
                told = Some(database_error(&error));
                break;
            }
        }
    }
    let error = told.expect("it fills up");
    assert!(matches!(error, DatabaseError::Full { .. }), "{error}");
    assert!(error.to_string().contains("free some room"), "{error}");
    // Keys that were held are held, and are given back in the room that there is.
    for guard in guards {
        assert!(guard.is_held());
        guard.release().await.expect("a release");
    }
    idle(&locks).await;
    let roomy = place.client().await;
    let guard = roomy.lock("k").await.expect("there is room for others");
    guard.release().await.expect("a release");
}

/// V8: a name that would need quotes is refused before anything is opened.
#[tokio::test]
async fn a_table_has_a_plain_name() {
    for odd in ["Locks", "a-b", "a%3Bb", "sqlite_locks"] {
        let url = format!("sqlite::memory:?table={odd}");
        let error = LockClient::connect(&url).await.expect_err("an odd name").to_string();
        assert!(error.contains("`table` is a name"), "{error}");
    }
    assert!(TableName::new("locks_2").is_ok());
    let error = LockClient::connect("sqlite::memory:?create=yes").await.expect_err("no bool");
    assert!(error.to_string().contains("`create` is `true` or `false`"), "{error}");
}
