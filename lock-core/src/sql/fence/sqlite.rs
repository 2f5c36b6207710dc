//! SQLite's dialect of a fence.

use sqlx::{AssertSqlSafe, Sqlite, SqliteConnection};

use super::dialect::FenceDialect;
use crate::sql::{TableName, Trouble};

impl FenceDialect for Sqlite {
    fn fence_table(table: &TableName) -> Vec<String> {
        vec![format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n  \
             resource TEXT NOT NULL PRIMARY KEY,\n  \
             fence INTEGER NOT NULL\n\
             ) STRICT, WITHOUT ROWID"
        )]
    }

    async fn make_fences<'c>(
        connection: &'c mut SqliteConnection,
        table: &'c TableName,
    ) -> Result<(), sqlx::Error> {
        for statement in Self::fence_table(table) {
            sqlx::query(AssertSqlSafe(statement)).execute(&mut *connection).await?;
        }
        // One that was there already may have another shape.
        let look = format!("SELECT resource, fence FROM {table} LIMIT 0");
        sqlx::query(AssertSqlSafe(look)).execute(connection).await.map(drop)
    }

    async fn raise_fence<'c>(
        connection: &'c mut SqliteConnection,
        table: &'c TableName,
        resource: &'c str,
        fence: i64,
    ) -> Result<Option<i64>, sqlx::Error> {
        // The update says the table's name, as `fence` alone could be either.
        let raise = format!(
            "INSERT INTO {table} (resource, fence) VALUES (?, ?)
             ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence
             WHERE {table}.fence <= excluded.fence"
        );
        let raised = sqlx::query(AssertSqlSafe(raise)).bind(resource).bind(fence);
        if raised.execute(&mut *connection).await?.rows_affected() > 0 {
            return Ok(None);
        }
        // The statement has taken the right to write, so this is what it was refused for.
        let seen = format!("SELECT fence FROM {table} WHERE resource = ?");
        sqlx::query_scalar(AssertSqlSafe(seen)).bind(resource).fetch_one(connection).await.map(Some)
    }

    fn trouble_of(error: &sqlx::Error) -> Trouble {
        Trouble::of_sqlite(error)
    }
}
