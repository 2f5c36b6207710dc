//! The tables: their names, how they are made, and whether those that are there will do.

use std::fmt;

use super::fault::DatabaseError;
use crate::backend::{StoreUrl, UrlError, UrlPart};

/// The name of a table. It stands in statements as it is, so it can hold nothing that would need
/// quotes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TableName(String);

/// The longest name of a table, in bytes: names that are made of it stay within what databases
/// take.
const NAME_BYTES_MAX: usize = 48;

impl TableName {
    /// A name of lower-case letters, digits and `_`, which begins with a letter and not with
    /// `sqlite_` or `pg_`: 1 to 48 bytes.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::TableName`] for any other.
    pub fn new(name: &str) -> Result<Self, DatabaseError> {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let is_name = name.len() <= NAME_BYTES_MAX
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.bytes().all(inner)
            && !name.starts_with("sqlite_")
            && !name.starts_with("pg_");
        is_name.then(|| Self(name.to_owned())).ok_or(DatabaseError::TableName)
    }
}

impl TableName {
    /// The name that a parameter of a URL gives.
    pub(super) fn of(url: &StoreUrl, param: &str) -> Result<Option<Self>, UrlError> {
        let name = url.param(param).map(Self::new).transpose();
        name.map_err(|_| {
            let what = format!(
                "`{param}` is a name of 1 to {NAME_BYTES_MAX} lower-case letters, digits and `_`, \
                 and begins with a letter"
            );
            UrlError::new(UrlPart::Parameters, what)
        })
    }

    /// One of our own names.
    pub(super) fn known(name: &'static str) -> Self {
        Self(name.to_owned())
    }

    /// One that a store of records has said to be that of its table.
    #[cfg(feature = "idempotency")]
    pub(crate) fn of_records(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The same in a schema.
    #[cfg(all(feature = "idempotency", feature = "postgres"))]
    pub(super) fn within(&self, schema: &Self) -> Self {
        Self(format!("{schema}.{self}"))
    }

    /// Without its schema.
    #[cfg(all(feature = "idempotency", feature = "postgres"))]
    pub(super) fn alone(&self) -> &str {
        self.0.rsplit('.').next().unwrap_or(&self.0)
    }
}

impl Default for TableName {
    /// `lock_leases`.
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

/// The table and the view that a store needs in its database, with the statements that make them.
/// Shown, it is a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    leases: TableName,
    status: String,
    statements: Vec<String>,
}

impl Schema {
    /// The same for every database but for the statements, which a dialect writes: of the name of
    /// the leases and that of the view.
    pub(super) fn new(leases: TableName, write: impl FnOnce(&str, &str) -> Vec<String>) -> Self {
        let status = match leases == TableName::default() {
            true => "lock_status".to_owned(),
            false => format!("{leases}_status"),
        };
        let statements = write(&leases.0, &status);
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

    /// The statements that make them, each only where it is missing.
    #[must_use]
    pub fn statements(&self) -> &[String] {
        &self.statements
    }

    /// Whether a table of these columns will do: those that there are, each with its type, and
    /// which of them are the primary key.
    pub(super) fn check(
        &self,
        found: &[Column],
        wanted: &[(&str, &str)],
    ) -> Result<(), DatabaseError> {
        let table = self.leases.to_string();
        if found.is_empty() {
            return Err(DatabaseError::TableMissing { table });
        }
        let shape = |what: String| Err(DatabaseError::TableShape { table: table.clone(), what });
        for (name, kind) in wanted {
            match found.iter().find(|column| column.name == *name) {
                None => return shape(format!("it has no column `{name}`")),
                Some(column) if !column.kind.eq_ignore_ascii_case(kind) => {
                    return shape(format!("its column `{name}` is no {kind}"));
                }
                Some(_) => {}
            }
        }
        let mut keys = found.iter().filter(|column| column.is_key).map(|column| &*column.name);
        match (keys.next(), keys.next()) {
            (Some("name"), None) => Ok(()),
            _ => shape("its primary key is not `name`".to_owned()),
        }
    }
}

/// A column of a table that is there.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: String,
    /// It is part of the primary key.
    pub(super) is_key: bool,
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.statements.iter().try_for_each(|statement| writeln!(f, "{statement};"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: [(&str, &str); 2] = [("name", "TEXT"), ("fence", "INTEGER")];

    fn column(name: &str, kind: &str, is_key: bool) -> Column {
        Column { name: name.to_owned(), kind: kind.to_owned(), is_key }
    }

    #[test]
    fn a_table_is_missing_or_is_told_apart_by_its_shape() {
        let schema = Schema::new(TableName::default(), |_, _| vec![]);
        let good = [column("fence", "integer", false), column("name", "TEXT", true)];
        assert!(schema.check(&good, &WANTED).is_ok());
        let missing = schema.check(&[], &WANTED);
        assert!(matches!(missing, Err(DatabaseError::TableMissing { .. })));
        for (odd, what) in [
            (vec![column("name", "TEXT", true)], "no column `fence`"),
            (vec![column("name", "TEXT", true), column("fence", "TEXT", false)], "no INTEGER"),
            (vec![column("name", "TEXT", false), column("fence", "INTEGER", true)], "primary key"),
            (vec![column("name", "TEXT", true), column("fence", "INTEGER", true)], "primary key"),
        ] {
            let error = schema.check(&odd, &WANTED).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("lock_leases"), "{error}");
        }
    }

    #[test]
    fn a_name_needs_no_quotes() {
        for name in ["a", "lock_leases", "t2"] {
            assert_eq!(TableName::new(name).unwrap().to_string(), name);
        }
        let long = "a".repeat(49);
        for odd in ["", "2t", "T", "a-b", "a b", "a;", "ä", "_a", "sqlite_a", "pg_a", long.as_str()]
        {
            assert_eq!(TableName::new(odd), Err(DatabaseError::TableName), "{odd}");
        }
    }
}
