//! What a database spells its own way of a fence.

use std::future::Future;

use crate::sql::{TableName, Trouble};

/// A database that can keep fences. Nobody else can implement it.
pub trait FenceDialect: sqlx::Database {
    /// The statements that make the table, if it is missing.
    #[doc(hidden)]
    fn fence_table(table: &TableName) -> Vec<String>;

    /// Makes the table.
    #[doc(hidden)]
    fn make_fences<'c>(
        connection: &'c mut Self::Connection,
        table: &'c TableName,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send + 'c;

    /// Raises the fence of a resource to this one, unless it is higher: then it is told, and
    /// nothing was written.
    #[doc(hidden)]
    fn raise_fence<'c>(
        connection: &'c mut Self::Connection,
        table: &'c TableName,
        resource: &'c str,
        fence: i64,
    ) -> impl Future<Output = Result<Option<i64>, sqlx::Error>> + Send + 'c;

    /// What an error is about.
    #[doc(hidden)]
    fn trouble_of(error: &sqlx::Error) -> Trouble;
}
