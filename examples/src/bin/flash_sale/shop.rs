//! The stock and the orders, in SQLite, with the fence.
//!
//! The row of a sku keeps the highest fencing token that ever wrote it, and a write with a smaller
//! one changes nothing. So a holder that slept through the end of its lease and wakes up after the
//! next one has written is refused, whatever it read before.
//!
//! Over a lock store in SQLite the records of idempotency are here as well, see [`once`](crate::once).

use std::path::{Path, PathBuf};
use std::time::Duration;

use lock_core::FencingToken;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Sqlite, SqlitePool, Transaction};
use tempfile::TempDir;

const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS stock (
        sku TEXT PRIMARY KEY,
        left INTEGER NOT NULL,
        fence INTEGER NOT NULL DEFAULT 0
    )",
    // No UNIQUE on the buyer: that an order is recorded once is what the lock is to show.
    "CREATE TABLE IF NOT EXISTS orders (
        sku TEXT NOT NULL,
        buyer INTEGER NOT NULL,
        order_id TEXT NOT NULL,
        fence INTEGER
    )",
];

/// Where the database is.
#[derive(Debug)]
pub(crate) struct Storage {
    path: PathBuf,
    // Removed with all that is in it when this goes.
    _temporary: Option<TempDir>,
}

impl Storage {
    /// At `path`, or in a temporary folder.
    pub(crate) fn new(path: Option<&Path>) -> std::io::Result<Self> {
        if let Some(path) = path {
            return Ok(Self { path: path.to_owned(), _temporary: None });
        }
        let folder = TempDir::with_prefix("flash-sale-")?;
        Ok(Self { path: folder.path().join("shop.sqlite"), _temporary: Some(folder) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The shelf as a seller sees it before the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) left: i64,
    /// The order that this buyer has already.
    pub(crate) order: Option<String>,
}

/// A sale that is about to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sale<'a> {
    pub(crate) sku: &'a str,
    pub(crate) buyer: u32,
    pub(crate) order: &'a str,
    /// The stock as it was read.
    pub(crate) left: i64,
    /// `None` sells without the fence.
    pub(crate) token: Option<FencingToken>,
}

/// Whether a write was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Done,
    /// The row has seen a higher token: nothing was changed.
    Stale,
}

/// The numbers of the books in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Books {
    pub(crate) left: i64,
    pub(crate) sold: u64,
    /// Orders beyond the first of their buyer.
    pub(crate) duplicates: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Shop {
    pool: SqlitePool,
}

impl Shop {
    pub(crate) async fn open(path: &Path) -> Result<Self, sqlx::Error> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(Duration::from_secs(30));
        let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
        for table in TABLES {
            sqlx::query(table).execute(&pool).await?;
        }
        Ok(Self { pool })
    }

    /// An empty shelf and no orders. The fence stays: a late writer of an earlier sale is no better.
    pub(crate) async fn clear(&self, sku: &str) -> Result<(), sqlx::Error> {
        let mut change = self.change().await?;
        sqlx::query("UPDATE stock SET left = 0 WHERE sku = ?")
            .bind(sku)
            .execute(&mut *change)
            .await?;
        sqlx::query("DELETE FROM orders WHERE sku = ?").bind(sku).execute(&mut *change).await?;
        change.commit().await
    }

    /// `None` for a sku that was never on the shelf.
    pub(crate) async fn look(&self, sku: &str, buyer: u32) -> Result<Option<Look>, sqlx::Error> {
        let row: Option<(i64, Option<String>)> = sqlx::query_as(
            "SELECT left, (SELECT order_id FROM orders WHERE sku = ?1 AND buyer = ?2)
             FROM stock WHERE sku = ?1",
        )
        .bind(sku)
        .bind(buyer)
        .fetch_optional(&self.pool)
        .await?;
        Ok(row.map(|(left, order)| Look { left, order }))
    }

    /// Writes what was decided by an earlier [`look`](Self::look), in a transaction of its own.
    pub(crate) async fn sell(&self, sale: Sale<'_>) -> Result<Written, sqlx::Error> {
        let mut change = self.change().await?;
        let written = Self::write(&mut change, sale).await?;
        if written == Written::Done {
            change.commit().await?;
        }
        Ok(written)
    }

    /// Writes the stock less one, and the order; both or none. Nobody sees it before the commit.
    pub(crate) async fn write(
        change: &mut Transaction<'static, Sqlite>,
        sale: Sale<'_>,
    ) -> Result<Written, sqlx::Error> {
        let token = sale.token.map(i64::from);
        let updated = sqlx::query(
            "UPDATE stock SET left = ?1, fence = coalesce(?2, fence)
             WHERE sku = ?3 AND (?2 IS NULL OR fence <= ?2)",
        )
        .bind(sale.left - 1)
        .bind(token)
        .bind(sale.sku)
        .execute(&mut **change)
        .await?;
        if updated.rows_affected() == 0 {
            return Ok(Written::Stale);
        }
        sqlx::query("INSERT INTO orders (sku, buyer, order_id, fence) VALUES (?, ?, ?, ?)")
            .bind(sale.sku)
            .bind(sale.buyer)
            .bind(sale.order)
            .bind(token)
            .execute(&mut **change)
            .await?;
        Ok(Written::Done)
    }

    /// Puts items on the shelf, under the fence like a sale.
    pub(crate) async fn restock(
        &self,
        sku: &str,
        items: u32,
        token: FencingToken,
    ) -> Result<Written, sqlx::Error> {
        let updated = sqlx::query(
            "INSERT INTO stock (sku, left, fence) VALUES (?, ?, ?)
             ON CONFLICT (sku) DO UPDATE
             SET left = left + excluded.left, fence = excluded.fence
             WHERE fence <= excluded.fence",
        )
        .bind(sku)
        .bind(items)
        .bind(i64::from(token))
        .execute(&self.pool)
        .await?;
        Ok(if updated.rows_affected() == 0 { Written::Stale } else { Written::Done })
    }

    pub(crate) async fn books(&self, sku: &str) -> Result<Books, sqlx::Error> {
        let (left, sold, buyers): (i64, i64, i64) = sqlx::query_as(
            "SELECT coalesce((SELECT left FROM stock WHERE sku = ?1), 0),
                    count(*), count(DISTINCT buyer) FROM orders WHERE sku = ?1",
        )
        .bind(sku)
        .fetch_one(&self.pool)
        .await?;
        Ok(Books { left, sold: sold.unsigned_abs(), duplicates: (sold - buyers).unsigned_abs() })
    }

    pub(crate) fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// A transaction that has its right to write from the start: one that began with a read would
    /// fail where others write, instead of waiting for them.
    async fn change(&self) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
        self.pool.begin_with("BEGIN IMMEDIATE").await
    }
}

#[cfg(test)]
impl Shop {
    /// As if a holder with this token had written.
    pub(crate) async fn raise_fence(&self, sku: &str, fence: i64) {
        let update = sqlx::query("UPDATE stock SET fence = ? WHERE sku = ?").bind(fence).bind(sku);
        update.execute(&self.pool).await.unwrap();
    }
}

#[cfg(test)]
mod tests {
    use lock_core::LockClient;

    use super::*;

    async fn two_tokens() -> (FencingToken, FencingToken) {
        let locks = LockClient::memory();
        let old = locks.lock("sneaker").await.unwrap();
        let older = old.token();
        old.release().await.unwrap();
        let newer = locks.lock("sneaker").await.unwrap().token();
        assert!(older < newer);
        (older, newer)
    }

    #[tokio::test]
    async fn a_write_under_an_older_token_changes_nothing_and_is_told() {
        let storage = Storage::new(None).unwrap();
        let shop = Shop::open(storage.path()).await.unwrap();
        let (older, newer) = two_tokens().await;
        assert_eq!(shop.restock("sneaker", 5, older).await.unwrap(), Written::Done);
        let left = shop.look("sneaker", 1).await.unwrap().unwrap().left;
        let sale =
            |buyer, token| Sale { sku: "sneaker", buyer, order: "o", left, token: Some(token) };
        assert_eq!(shop.sell(sale(1, newer)).await.unwrap(), Written::Done);
        let books = Books { left: 4, sold: 1, duplicates: 0 };

        assert_eq!(shop.sell(sale(2, older)).await.unwrap(), Written::Stale);
        assert_eq!(shop.restock("sneaker", 5, older).await.unwrap(), Written::Stale);
        assert_eq!(shop.books("sneaker").await.unwrap(), books);
        assert_eq!(shop.look("sneaker", 2).await.unwrap(), Some(Look { left: 4, order: None }));
    }

    #[tokio::test]
    async fn the_fence_outlives_the_sale_and_a_second_order_of_a_buyer_is_counted() {
        let storage = Storage::new(None).unwrap();
        let shop = Shop::open(storage.path()).await.unwrap();
        let (older, newer) = two_tokens().await;
        shop.restock("sneaker", 5, newer).await.unwrap();
        let sale = Sale { sku: "sneaker", buyer: 1, order: "o", left: 5, token: Some(newer) };
        shop.sell(sale).await.unwrap();
        shop.sell(sale).await.unwrap();
        assert_eq!(shop.books("sneaker").await.unwrap(), Books { left: 4, sold: 2, duplicates: 1 });

        shop.clear("sneaker").await.unwrap();
        assert_eq!(shop.books("sneaker").await.unwrap(), Books { left: 0, sold: 0, duplicates: 0 });
        assert_eq!(shop.restock("sneaker", 5, older).await.unwrap(), Written::Stale);
    }
}
