//! The tables: their names, how they are made, and whether those that are there will do.

use std::fmt;

use super::DatabaseError;

/// The name of a table. It stands in statements as it is, so it can hold nothing that would need
/// quotes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TableName(String);

/// The longest name of a table, in bytes: names that are made of it stay within what databases
/// take.
const NAME_BYTES_MAX: usize = 48;

impl TableName {
    /// A name of lower-case letters, digits and `_`, which begins with a letter: 1 to 48 bytes.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::TableName`] for any other.
    pub fn new(name: &str) -> Result<Self, DatabaseError> {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_name = name.len() <= NAME_BYTES_MAX
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.bytes().all(inner)
            && !name.starts_with("sqlite_");
        is_name.then(|| Self(name.to_owned())).ok_or(DatabaseError::TableName)
    }
}

impl TableName {
    /// One of our own names.
    pub(super) fn known(name: &'static str) -> Self {
        Self(name.to_owned())
    }
}

impl Default for TableName {
    fn default() -> Self {
        Self("lock_leases".to_owned())
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a store needs of its database, and how that is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    leases: TableName,
    status: String,
    statements: Vec<String>,
}

/// A column of the leases: its name.
pub(super) const COLUMNS: [&str; 9] =
    ["name", "version", "fence", "fences", "holder", "about", "until", "holders", "line"];

impl Schema {
    /// The same for every database but for the statements, which a dialect writes.
    pub(super) fn new(
        leases: TableName,
        statements: impl FnOnce(&str, &str) -> Vec<String>,
    ) -> Self {
        let status = match leases == TableName::default() {
            true => "lock_status".to_owned(),
            false => format!("{leases}_status"),
        };
        let statements = statements(&leases.0, &status);
        Self { leases, status, statements }
    }

    /// The table with a row per key: `lock_leases`, unless the URL says otherwise.
    #[must_use]
    pub fn leases(&self) -> &TableName {
        &self.leases
    }

    /// A view of it for people: `lock_status`, or `<table>_status` for a table of another name.
    #[must_use]
    pub fn status(&self) -> &str {
        &self.status
    }

    /// What makes them, each only where it is missing.
    #[must_use]
    pub fn statements(&self) -> &[String] {
        &self.statements
    }
}

impl fmt::Display for Schema {
    /// As a script for a tool of yours.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.statements.iter().try_for_each(|statement| writeln!(f, "{statement};"))
    }
}
