//! A check in the transaction that writes: a holder that stood still can't commit.
//!
//! `cargo run -p examples --example fenced_transaction [redis://127.0.0.1]`

use std::error::Error;
use std::time::Duration;

use lock_core::LockClient;
use lock_core::sql::{FenceError, Fences};
use sqlx::{Sqlite, SqlitePool, Transaction};
use tempfile::TempDir;

const DOCUMENT: &str = "document:1";

async fn write(tx: &mut Transaction<'_, Sqlite>, text: &str) -> Result<(), sqlx::Error> {
    let update = sqlx::query("UPDATE documents SET text = ? WHERE id = 1").bind(text);
    update.execute(&mut **tx).await.map(drop)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let locks = LockClient::connect(&url).await?;

    // The database of the application. A deployment makes the table of the fences once.
    let folder = TempDir::new()?;
    let file = folder.path().join("documents.db");
    let pool = SqlitePool::connect(&format!("sqlite://{}?mode=rwc", file.display())).await?;
    Fences::default().migrate(&pool).await?;
    sqlx::query("CREATE TABLE documents (id INTEGER PRIMARY KEY, text TEXT)")
        .execute(&pool)
        .await?;
    sqlx::query("INSERT INTO documents VALUES (1, 'empty')").execute(&pool).await?;

    // The first writer looks at its lock, which is held, and stands still past its lease.
    let slow = locks.lock(DOCUMENT).hold_limit(Duration::from_millis(50)).await?;
    let token = slow.token();
    println!("the slow writer looks: its lock is held: {}", slow.is_held());
    slow.lost().await;

    // The lock was handed on, and the next writer commits.
    let quick = locks.lock(DOCUMENT).await?;
    let mut tx = pool.begin().await?;
    quick.fence(&mut tx, DOCUMENT).await?;
    write(&mut tx, "the quick one").await?;
    tx.commit().await?;
    println!("the quick writer has committed under {}", quick.token());

    // The slow one goes on where it was, with no more than its token. The database refuses it.
    let mut tx = pool.begin().await?;
    match token.fence(&mut tx, DOCUMENT).await {
        Err(error @ FenceError::Stale { .. }) => println!("the slow writer: {error}"),
        other => panic!("it should have been refused: {other:?}"),
    }
    tx.rollback().await?;

    // With its guard in hand it would not even ask.
    let mut tx = pool.begin().await?;
    assert!(matches!(slow.fence(&mut tx, DOCUMENT).await, Err(FenceError::NotHeld { .. })));
    tx.rollback().await?;

    let text: String = sqlx::query_scalar("SELECT text FROM documents").fetch_one(&pool).await?;
    assert_eq!(text, "the quick one");
    quick.release().await?;
    pool.close().await;
    locks.shutdown(Duration::from_secs(1)).await;
    Ok(())
}
