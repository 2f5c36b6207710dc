//! The dialect of MySQL and MariaDB of a fence.
//!
//! A statement that writes goes by what is committed, at each level, and so does a read that locks.
//! A plain read does not: behind an old snapshot it would pass a stale holder.

use sqlx::MySql;

use super::dialect::FenceDialect;
use crate::sql::TableName;

impl FenceDialect for MySql {
    /// A row that is left as it was counts as one that was made, as sqlx asks for rows that are
    /// found.
    const COUNTS: bool = false;
    const SAYS_PLACE: bool = true;

    fn fence_table(table: &TableName) -> Vec<String> {
        vec![format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n  \
             resource varbinary(512) NOT NULL PRIMARY KEY,\n  \
             fence bigint NOT NULL\n\
             ) ENGINE = InnoDB"
        )]
    }

    fn raise_fence(table: &TableName) -> String {
        format!(
            "INSERT INTO {table} (resource, fence) VALUES (?, ?) \
             ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))"
        )
    }

    fn seen_fence(table: &TableName) -> String {
        format!(
            "SELECT fence, CONVERT(CONCAT_WS('/', @@hostname, @@port, DATABASE()) USING utf8mb4) \
             AS place FROM {table} WHERE resource = ? FOR UPDATE"
        )
    }
}
