//! The statements of a fence that a database spells its own way.

use crate::sql::TableName;
use crate::sql::runs::Runs;

/// A database that can keep fences. Nobody else can implement it.
pub trait FenceDialect: Runs {
    /// Whether the rows that [`raise_fence`](Self::raise_fence) writes say whether it has raised
    /// it.
    #[doc(hidden)]
    const COUNTS: bool = true;

    /// Whether [`seen_fence`](Self::seen_fence) answers the `place` of the table as well, as there
    /// are engines without transactions.
    #[doc(hidden)]
    const SAYS_PLACE: bool = false;

    /// The statements that make the table, if it is missing.
    #[doc(hidden)]
    fn fence_table(table: &TableName) -> Vec<String>;

    /// Raises the fence of a resource to one, unless it is higher; given both. It locks the row,
    /// and writes it where it raises it.
    #[doc(hidden)]
    fn raise_fence(table: &TableName) -> String {
        // The update says the table's name, as `fence` alone could be either.
        format!(
            "INSERT INTO {table} AS f (resource, fence) VALUES (?, ?) \
             ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence \
             WHERE f.fence <= excluded.fence"
        )
    }

    /// Reads the fence of a resource behind that; given the resource. It reads the present, also
    /// where a transaction reads from a snapshot.
    #[doc(hidden)]
    fn seen_fence(table: &TableName) -> String {
        format!("SELECT fence FROM {table} WHERE resource = ?")
    }
}
