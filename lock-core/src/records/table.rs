//! A record store that is a table of a database.

use std::sync::Arc;

/// The table in which a record store keeps its records, if it is one of a database. An execution
/// may then be completed in a transaction of that database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordTable {
    database: &'static str,
    name: Arc<str>,
}

impl RecordTable {
    /// The table `name` of a `database` as sqlx calls it, such as `SQLite`.
    #[cfg(feature = "sql")]
    pub(crate) fn new(database: &'static str, name: impl Into<Arc<str>>) -> Self {
        Self { database, name: name.into() }
    }

    /// The kind of database, as sqlx calls it: `SQLite`, `PostgreSQL`.
    #[must_use]
    pub fn database(&self) -> &'static str {
        self.database
    }

    /// The name of the table.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}
