//! The file itself: deleted, replaced, and what is left of it.

use lock_core::error::LossReason;
use lock_core::sql::DatabaseError;
use tests::wait::{eventually, within};

use crate::support::*;

/// F29 (V1, V2, V5): whoever had the file open goes on to see the old one, so without a look at its
/// name each process would have locks of its own.
#[tokio::test]
async fn a_file_that_is_deleted_ends_the_holds_in_it_and_the_next_is_served_in_a_new_one() {
    let place = Place::new();
    let (one, two) = (place.client_for(1_500).await, place.client_for(1_500).await);
    let guard = one.lock("k").await.expect("a free key");
    let old = guard.token();
    for end in ["", "-wal", "-shm"] {
        let path = place.path().display().to_string() + end;
        std::fs::remove_file(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let next = two.lock("k").await.expect("it is free in the new file");
    assert!(next.token() > old, "{:?} after {old:?}", next.token());
    assert_eq!(within("the loss", guard.lost()).await.reason(), LossReason::Taken);
    // Both are in one file again.
    assert!(one.lock("k").try_acquire().await.expect("an answer").is_none());
    next.release().await.expect("a release");
    one.lock("k").await.expect("a free key").release().await.expect("a release");
    drop(guard);
    idle(&one).await;
    idle(&two).await;
}

/// V8: a file that is not to be made is missed, and served again when it is back.
#[tokio::test]
async fn a_file_that_is_gone_for_a_while_is_told_as_missing() {
    let place = Place::new();
    drop(place.client().await);
    let locks = connect(&place.url(), ms(30_000)).await;
    let guard = locks.lock("k").await.expect("a free key");
    guard.release().await.expect("a release");
    let away = place.path().with_extension("away");
    std::fs::rename(place.path(), &away).expect("a file that is moved");
    let error = locks.lock("k").options(once()).await.expect_err("there is no file");
    assert!(matches!(database_error(&error), DatabaseError::FileMissing { .. }), "{error:?}");
    std::fs::rename(&away, place.path()).expect("a file that is back");
    let guard = locks.lock("k").await.expect("a free key");
    guard.release().await.expect("a release");
}

/// V6: a client that goes takes its connection, its threads and SQLite's own files with it.
#[tokio::test]
async fn nothing_is_left_of_a_client_that_is_gone() {
    let place = Place::new();
    let files = || {
        let names = place.path().parent().expect("a folder").read_dir().expect("a folder");
        let mut names: Vec<_> =
            names.map(|file| file.expect("a file").file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let locks = place.client().await;
    let guard = locks.lock("k").await.expect("a free key");
    assert_eq!(files(), ["locks.db", "locks.db-shm", "locks.db-wal"]);
    guard.release().await.expect("a release");
    idle(&locks).await;
    drop(locks);
    eventually("the connection is closed", || files() == ["locks.db"]).await;
}
