//! A disk that takes no write any more, or does not say that it has kept one, in the middle of a commit:
//! told by a process of its own, as the limit of a file's size is one of a process, and so is the library
//! that has a sync fail.

use std::fs;
use std::path::Path;

use tokio::process::Command;

use crate::support::{File, pool};

/// The words of `till` on its commit, the payments in the books, and the number of records that are
/// completed.
async fn commit(mode: &str) -> (String, i64, i64) {
    let file = File::new();
    drop(file.records().await);
    let pool = pool(file.path()).await;
    for sql in [
        "CREATE TABLE payments (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)",
        "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)",
        "INSERT INTO accounts VALUES (1, 100)",
    ] {
        sqlx::query(sql).execute(&pool).await.expect("a table");
    }
    let mut till = Command::new(env!("CARGO_BIN_EXE_till"));
    till.arg("--file").arg(file.path()).args(["--mode", mode]);
    if mode.starts_with("sync") {
        let folder = file.path().with_extension("folder");
        fs::create_dir(&folder).expect("a folder");
        till.env("LD_PRELOAD", failing_sync(&folder)).env("FAILING_SYNC", folder.join("fails"));
    }
    let output = till.output().await.expect("a process");
    assert!(output.status.success(), "{output:?}");
    let number = async |sql: &'static str| {
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&pool).await.expect("a number")
    };
    let paid = number("SELECT count(*) FROM payments").await;
    assert_eq!(100 - number("SELECT balance FROM accounts").await, 5 * paid);
    let done = number("SELECT count(*) FROM lock_records WHERE state = 'done'").await;
    // A power cut would leave this: the log is read anew, without what processes know of it.
    let (copy, log) = (file.path().with_extension("copy"), file.path().with_extension("db-wal"));
    fs::copy(file.path(), &copy).expect("a copy");
    fs::copy(log, copy.with_extension("copy-wal")).expect("a copy");
    let copied = crate::support::pool(copy).await;
    let left = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM payments");
    assert_eq!(left.fetch_one(&copied).await.expect("a number"), paid);
    let said = String::from_utf8(output.stdout).expect("words");
    (said.lines().next().unwrap_or_default().to_owned(), paid, done)
}

#[tokio::test]
async fn a_commit_that_the_disk_does_not_take_is_none_once_it_can_be_asked() {
    assert_eq!(commit("disk-fails-once").await, ("not committed, and a retry runs".into(), 0, 0));
}

#[tokio::test]
async fn a_commit_that_the_disk_does_not_take_is_unknown_while_it_takes_nothing() {
    let unknown = "unknown, and a retry runs once the disk is back".into();
    assert_eq!(commit("disk-fails").await, (unknown, 0, 0));
}

/// The library that has a sync fail.
fn failing_sync(folder: &Path) -> std::path::PathBuf {
    let (source, library) = (folder.join("sync.c"), folder.join("sync.so"));
    fs::write(&source, include_str!("../../src/failing_sync.c")).expect("a writable folder");
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().expect("the linker of Rust").success(), "the library");
    library
}

/// It may be there after a power cut, until something else is written in its place: the record is taken
/// back before anybody is told.
#[tokio::test]
async fn a_commit_that_the_disk_is_not_sure_of_is_none_once_something_else_is_kept() {
    assert_eq!(commit("sync-fails-once").await, ("not committed, and a retry runs".into(), 0, 0));
}

#[tokio::test]
async fn a_commit_that_the_disk_is_not_sure_of_is_unknown_while_it_is_sure_of_nothing() {
    let unknown = "unknown, and a retry runs once the disk is back".into();
    assert_eq!(commit("sync-fails").await, (unknown, 0, 0));
}
