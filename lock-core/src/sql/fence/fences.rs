//! The table of the fences, and the check.

use std::fmt;

use sqlx::{Acquire, Transaction};

use super::dialect::FenceDialect;
use super::error::FenceError;
use crate::key::{IntoKey, Key};
use crate::sql::{DatabaseError, TableName, Trouble};
use crate::token::FencingToken;

/// The greatest token that has written each resource, in a table of your database. Any number of
/// locks and services may share it, as long as they name different resources.
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
    /// [`FenceError::TableShape`] where there is a table of that name that is none of ours, and
    /// [`FenceError::Busy`] or [`FenceError::Database`] as the database says.
    ///
    /// # Cancel safety
    ///
    /// The table may have been made, or not.
    pub async fn migrate<'a, D: FenceDialect>(
        &self,
        through: impl Acquire<'a, Database = D> + Send,
    ) -> Result<(), FenceError> {
        let mut connection = through.acquire().await.map_err(|error| self.fault::<D>(error))?;
        let made = D::make_fences(&mut connection, &self.table).await;
        made.map_err(|error| self.fault::<D>(error))
    }

    /// Lets a transaction go on under this token, unless a later holder has written the resource.
    /// Holders have [`fence`](crate::LockGuard::fence), which also asks whether the lock is held
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

    pub(super) async fn check_key<D: FenceDialect>(
        &self,
        tx: &mut Transaction<'_, D>,
        token: FencingToken,
        resource: Key,
    ) -> Result<(), FenceError> {
        let raised = D::raise_fence(&mut *tx, &self.table, resource.as_str(), token.into()).await;
        match raised.map_err(|error| self.fault::<D>(error))? {
            None => Ok(()),
            Some(seen) => {
                let seen = FencingToken::new(u64::try_from(seen).unwrap_or_default());
                Err(FenceError::Stale { resource, token, seen })
            }
        }
    }

    fn fault<D: FenceDialect>(&self, source: sqlx::Error) -> FenceError {
        let table = self.table.clone();
        match D::trouble_of(&source) {
            Trouble::NoTable => FenceError::TableMissing { table, source },
            Trouble::OtherShape => FenceError::TableShape { table, source },
            Trouble::Busy => FenceError::Busy { source },
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
