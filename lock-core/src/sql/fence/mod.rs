//! The check inside the transaction that writes: a holder that was stopped past its lease cannot
//! commit.
//!
//! A lock that was lost tells its holder so, and a holder that stands still hears nothing. It goes
//! on later and writes over what the next one has written. A look at the lock before the write does
//! not help, as it may stand still behind that look. So the check belongs into the transaction of
//! the write, where the database decides:
//!
//! ```
//! # use sqlx::SqlitePool;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use lock_core::sql::Fences;
//!
//! let pool = SqlitePool::connect("sqlite::memory:").await?;
//! Fences::default().migrate(&pool).await?;
//! # sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, paid INTEGER)").execute(&pool).await?;
//! let locks = lock_core::LockClient::connect("memory:").await?; // or any other store
//!
//! let guard = locks.lock("order:42").await?;
//! let mut tx = pool.begin().await?;
//! guard.fence(&mut tx, "order:42").await?; // an error if a later holder has written: roll back
//! sqlx::query("UPDATE orders SET paid = 1 WHERE id = 42").execute(&mut *tx).await?;
//! tx.commit().await?;
//! # Ok(()) }
//! ```
//!
//! A table keeps the greatest token that has written each resource. The check raises it to the
//! token of this holder, unless it is greater already. The row stays locked until the transaction
//! ends. So of two holders the second waits for the first one's commit, and is refused if it is the
//! older one. Both are equal where one holder writes twice.
//!
//! # What it promises
//!
//! For transactions that check one resource, under tokens that grow with each holder: they commit
//! in the order of their tokens, at every isolation level. What a transaction reads behind its check
//! is what the earlier holders have committed. In SQLite, and at levels that read from a snapshot, that
//! is so where the check is the first statement.
//!
//! # What it does not
//!
//! - A writer that does not check is not seen, and neither is an effect outside of the database.
//! - A late holder's write stands where no later holder has written yet. It then comes before theirs.
//! - Tokens are compared as numbers. They have to be those of one lock for one resource: not of two
//!   keys, of two stores, or of permits, of which several holders write at a time.
//!
//! - `fences`: the table, and the check. - `holders`: whoever carries a token. - `dialect`: what a
//!   database spells its own way. - `sqlite`: SQLite's dialect. - `error`: what can go wrong.

mod dialect;
mod error;
mod fences;
mod holders;
mod sqlite;

pub use self::dialect::FenceDialect;
pub use self::error::FenceError;
pub use self::fences::Fences;
