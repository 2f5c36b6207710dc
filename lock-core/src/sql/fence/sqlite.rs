//! SQLite's dialect of a fence.

use sqlx::Sqlite;

use super::dialect::FenceDialect;
use crate::sql::TableName;

impl FenceDialect for Sqlite {
    fn fence_table(table: &TableName) -> Vec<String> {
        vec![format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n  \
             resource TEXT NOT NULL PRIMARY KEY,\n  \
             fence INTEGER NOT NULL\n\
             ) STRICT, WITHOUT ROWID"
        )]
    }
}
