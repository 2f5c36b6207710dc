//! A disk that takes no write any more, in the middle of a commit: told by a process of its own, as
//! the limit of a file's size is one of a process.

use tokio::process::Command;

use crate::support::{File, pool};

/// What `till` says of its commit, what is in the books, and how many records are completed.
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
    let output = till.output().await.expect("a process");
    assert!(output.status.success(), "{output:?}");
    let number = async |sql: &'static str| {
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&pool).await.expect("a number")
    };
    let paid = number("SELECT count(*) FROM payments").await;
    assert_eq!(100 - number("SELECT balance FROM accounts").await, 5 * paid);
    let done = number("SELECT count(*) FROM lock_records WHERE state = 'done'").await;
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
