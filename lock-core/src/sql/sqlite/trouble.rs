//! The kinds of SQLite's errors, and their meaning.

use std::path::Path;

use sqlx::Error;

use crate::sql::fault::DatabaseError;
use crate::sql::schema::TableName;
use crate::sql::trouble::Trouble;

/// The result codes of SQLite that tell what to do. The lowest byte is the kind.
mod code {
    pub(super) const GENERAL: u32 = 1;
    pub(super) const BUSY: u32 = 5;
    pub(super) const LOCKED: u32 = 6;
    pub(super) const READ_ONLY: u32 = 8;
    pub(super) const IO: u32 = 10;
    pub(super) const CORRUPT: u32 = 11;
    pub(super) const FULL: u32 = 13;
    pub(super) const CANNOT_OPEN: u32 = 14;
    /// Two connections have come to the same lock of the WAL in an unlucky order.
    pub(super) const PROTOCOL: u32 = 15;
    pub(super) const NO_DATABASE: u32 = 26;
}

impl Trouble {
    /// The kind of an error by its code at SQLite, and for its general one by the text.
    pub(in crate::sql) fn of_sqlite(error: &Error) -> Self {
        match kind(error) {
            Some(code::BUSY | code::LOCKED | code::PROTOCOL) => Self::Busy,
            Some(code::READ_ONLY) => Self::ReadOnly,
            Some(code::FULL) => Self::Full,
            Some(code::CANNOT_OPEN) => Self::CannotOpen,
            Some(code::CORRUPT | code::NO_DATABASE) => Self::NoDatabase,
            Some(code::GENERAL) => {
                let text = error.to_string();
                let has = |part: &&str| text.contains(*part);
                if has(&"no such table") {
                    Self::NoTable
                } else if ["no such column", "has no column named", "ON CONFLICT clause"]
                    .iter()
                    .any(has)
                {
                    Self::OtherShape
                } else {
                    Self::Other
                }
            }
            _ => Self::Other,
        }
    }

    /// The error that it means for a table in a file; `None` where others are at it just now, and
    /// nothing was done.
    pub(in crate::sql) fn meaning(
        self,
        file: &Path,
        table: &TableName,
        error: &Error,
    ) -> Option<DatabaseError> {
        let path = file.to_owned();
        Some(match self {
            Self::Busy => return None,
            Self::NoTable => DatabaseError::TableMissing { table: table.to_string() },
            Self::OtherShape => {
                DatabaseError::TableShape { table: table.to_string(), what: error.to_string() }
            }
            Self::ReadOnly => DatabaseError::ReadOnly { path },
            Self::Full => DatabaseError::Full { path },
            Self::CannotOpen => DatabaseError::CannotOpen { path },
            Self::NoDatabase => DatabaseError::NoDatabase { path },
            Self::Ended | Self::NoRight | Self::Other => {
                DatabaseError::Other { what: error.to_string() }
            }
        })
    }
}

/// Whether the connection is of no use any more.
pub(super) fn ends_the_connection(error: &Error) -> bool {
    match error {
        Error::Database(_) => matches!(
            kind(error),
            Some(code::IO | code::CORRUPT | code::NO_DATABASE | code::CANNOT_OPEN)
        ),
        Error::RowNotFound | Error::ColumnDecode { .. } | Error::Decode(_) => false,
        _ => true,
    }
}

/// The lowest byte of SQLite's code.
fn kind(error: &Error) -> Option<u32> {
    let code: u32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}
