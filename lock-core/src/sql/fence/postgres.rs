//! PostgreSQL's dialect of a fence.
//!
//! At *read committed* the statement waits for whoever has the row, and compares with what that one
//! has committed. At *repeatable read* and *serializable* it is ended with a serialisation failure
//! where the row was written, or made, since the transaction's first statement: so an old snapshot
//! is never taken for the present, and neither passes for a fence that is higher.

use sqlx::Postgres;

use super::dialect::FenceDialect;
use crate::sql::TableName;

impl FenceDialect for Postgres {
    fn fence_table(table: &TableName) -> Vec<String> {
        // Each write is an update of the number, which stays in its page where there is room.
        vec![format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n  \
             resource text COLLATE \"C\" NOT NULL PRIMARY KEY,\n  \
             fence bigint NOT NULL\n\
             ) WITH (fillfactor = 70)"
        )]
    }
}
