//! The table of the fences, and the check.

use std::fmt;

use sqlx::{Acquire, Connection, Transaction};

use super::dialect::FenceDialect;
use super::engines;
use super::error::FenceError;
use crate::key::{IntoKey, Key};
use crate::sql::runs::{Value, make, other_engine, there};
use crate::sql::{DatabaseError, TableName, Trouble};
use crate::token::FencingToken;

/// The greatest token that has written each resource, in a table of your database. By it a transaction
/// of a holder that was stopped past its lease is refused, once a later holder has written.
///
/// A lock that was lost tells its holder so, and a holder that stands still hears nothing. It goes
/// on later and writes over what the next one has written. A look at the lock before the write does
/// not help, as it may stand still behind that look. So the check belongs into the transaction of
/// the write, where the database decides:
///
/// ```
/// # use sqlx::SqlitePool;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::sql::Fences;
///
/// let pool = SqlitePool::connect("sqlite::memory:").await?;
/// Fences::default().migrate(&pool).await?;
/// # sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, paid INTEGER)").execute(&pool).await?;
/// let locks = lock_core::LockClient::connect("memory:").await?; // or any other store
///
/// let guard = locks.lock("order:42").await?;
/// let mut tx = pool.begin().await?;
/// guard.fence(&mut tx, "order:42").await?; // an error if a later holder has written: roll back
/// sqlx::query("UPDATE orders SET paid = 1 WHERE id = 42").execute(&mut *tx).await?;
/// tx.commit().await?;
/// # Ok(()) }
/// ```
///
/// A table keeps the greatest token that has written each resource. The check raises it to the
/// token of this holder, unless it is greater already. The row stays locked until the transaction
/// ends. So of two holders the second waits for the first one's commit, and is refused if it is the
/// older one. Both are equal where one holder writes twice.
///
/// # What it promises
///
/// Transactions that check one resource commit in the order of their tokens, at every isolation
/// level. The tokens have to grow with each holder. Behind its check a transaction reads what the
/// earlier holders have committed. In SQLite, and at levels that read from a snapshot, that is so
/// where the check is the first statement.
///
/// # What it does not
///
/// - A writer that does not check is not seen, and neither is an effect outside of the database.
/// - A late holder's write stands where no later holder has written yet. It then comes before
///   theirs.
/// - Tokens are compared as numbers. They have to be those of one lock for one resource: not of two
///   keys, of two stores, or of permits, of which several holders write at a time.
///
/// # The table
///
/// Any number of locks and services may share it, as long as they name different resources.
///
/// A row is kept for good: whoever may still be under way, nobody knows. Remove it in the
/// transaction that removes its resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fences {
    table: TableName,
}

impl Default for Fences {
    /// In the table `lock_fences`.
    fn default() -> Self {
        Self { table: TableName::known("lock_fences") }
    }
}

impl Fences {
    /// In a table of another name.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::TableName`] for a name that would need quotes, or is too long.
    pub fn in_table(name: &str) -> Result<Self, DatabaseError> {
        Ok(Self { table: TableName::new(name)? })
    }

    /// The table.
    #[must_use]
    pub fn table(&self) -> &TableName {
        &self.table
    }

    /// The statements that make the table where it is missing, for a tool of your own:
    /// `Fences::default().statements::<sqlx::Sqlite>()`.
    #[must_use]
    pub fn statements<D: FenceDialect>(&self) -> Vec<String> {
        D::fence_table(&self.table)
    }

    /// Makes the table where it is missing, through a pool, a connection or a transaction.
    ///
    /// # Errors
    ///
    /// [`FenceError::TableShape`] and [`FenceError::TableEngine`] where there is a table of that
    /// name that is none of ours, or whose engine has no transactions, and [`FenceError::Busy`] or
    /// [`FenceError::Database`] as the database says.
    ///
    /// # Cancel safety
    ///
    /// The table may have been made, or not.
    pub async fn migrate<'a, D: FenceDialect>(
        &self,
        through: impl Acquire<'a, Database = D> + Send,
    ) -> Result<(), FenceError> {
        let mut connection = through.acquire().await.map_err(|error| self.fault::<D>(error))?;
        let (statements, table) = (self.statements::<D>(), self.table.to_string());
        let made = make::<D>(&mut connection, statements, &table, "resource, fence").await;
        made.map_err(|error| self.fault::<D>(error))?;
        self.has_transactions::<D>(&mut connection).await
    }

    /// Lets a transaction go on under this token, unless a later holder has written the resource.
    /// Holders have [`fence`](crate::LockHandle::fence), which also asks whether the lock is held
    /// still. This is for a token that came from elsewhere, and for a table of another name.
    ///
    /// It takes a transaction, as outside of one the check would be over before the write.
    ///
    /// # Errors
    ///
    /// [`FenceError`], and the transaction is to be rolled back, as by dropping it.
    ///
    /// # Cancel safety
    ///
    /// The check may have been made, or not: roll the transaction back.
    pub async fn check<D: FenceDialect>(
        &self,
        tx: &mut Transaction<'_, D>,
        token: FencingToken,
        resource: impl IntoKey,
    ) -> Result<(), FenceError> {
        self.check_key(tx, token, resource.into_key()?).await
    }

    /// As [`check`](Self::check), for a function that is handed the connection of a transaction.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check); [`FenceError::NoTransaction`] where none is open on it that sqlx
    /// knows of: nothing was sent.
    ///
    /// # Cancel safety
    ///
    /// As [`check`](Self::check).
    pub async fn check_on<C>(
        &self,
        connection: &mut C,
        token: FencingToken,
        resource: impl IntoKey,
    ) -> Result<(), FenceError>
    where
        C: Connection,
        C::Database: FenceDialect<Connection = C>,
    {
        self.check_key_on::<C::Database>(connection, token, resource.into_key()?).await
    }

    pub(crate) async fn check_key_on<D: FenceDialect>(
        &self,
        connection: &mut D::Connection,
        token: FencingToken,
        resource: Key,
    ) -> Result<(), FenceError> {
        if !connection.is_in_transaction() {
            return Err(FenceError::NoTransaction { resource });
        }
        if !D::is_open(&mut *connection).await.map_err(|error| self.fault::<D>(error))? {
            return Err(FenceError::NoTransaction { resource });
        }
        match self.raise::<D>(connection, token.into(), &resource).await? {
            None => Ok(()),
            Some(seen) => {
                let seen = FencingToken::new(u64::try_from(seen).unwrap_or_default());
                Err(FenceError::Stale { resource, token, seen })
            }
        }
    }

    pub(crate) async fn check_key<D: FenceDialect>(
        &self,
        tx: &mut Transaction<'_, D>,
        token: FencingToken,
        resource: Key,
    ) -> Result<(), FenceError> {
        self.check_key_on::<D>(&mut *tx, token, resource).await
    }

    /// Raises the fence of a resource to this one, unless it is higher: then it is told, and
    /// nothing was written.
    async fn raise<D: FenceDialect>(
        &self,
        connection: &mut D::Connection,
        fence: i64,
        resource: &Key,
    ) -> Result<Option<i64>, FenceError> {
        let fault = |error| self.fault::<D>(error);
        let name = || Value::Text(resource.to_string());
        let raise = D::raise_fence(&self.table);
        let written = D::run(&mut *connection, raise, vec![name(), fence.into()]).await;
        let written = written.map_err(fault)?;
        if D::COUNTS && written > 0 {
            return Ok(None);
        }
        // The statement has locked the row, so this is what it was refused for.
        let rows = D::rows(&mut *connection, D::seen_fence(&self.table), vec![name()]).await;
        let rows = rows.map_err(fault)?;
        let row = rows.first().ok_or_else(|| fault(sqlx::Error::RowNotFound))?;
        if D::SAYS_PLACE {
            let place = D::text(row, "place").and_then(there).map_err(fault)?;
            if !engines::is_known(&place, &self.table) {
                self.has_transactions::<D>(connection).await?;
                engines::is_good(place, &self.table);
            }
        }
        let seen = D::whole(row, "fence").and_then(there).map_err(fault)?;
        // A database may count a row that was written as it was for none.
        Ok(Some(seen).filter(|seen| *seen > fence))
    }

    async fn has_transactions<D: FenceDialect>(
        &self,
        connection: &mut D::Connection,
    ) -> Result<(), FenceError> {
        let engine = other_engine::<D>(connection, &self.table.to_string()).await;
        match engine.map_err(|error| self.fault::<D>(error))? {
            None => Ok(()),
            Some(engine) => Err(FenceError::TableEngine { table: self.table.clone(), engine }),
        }
    }

    fn fault<D: FenceDialect>(&self, source: sqlx::Error) -> FenceError {
        let table = self.table.clone();
        match D::trouble(&source) {
            Trouble::NoTable => FenceError::TableMissing { table, source },
            Trouble::OtherShape => FenceError::TableShape { table, source },
            Trouble::NoRight => FenceError::RightMissing { table, source },
            Trouble::Busy => FenceError::Busy { source },
            Trouble::Ended => FenceError::Ended { source },
            _ => FenceError::Database { source },
        }
    }
}

impl fmt::Display for Fences {
    /// The name of the table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.fmt(f)
    }
}
