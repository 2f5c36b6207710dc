//! What an error of SQLite means.

use std::path::Path;

use sqlx::Error;

use crate::sql::fault::DatabaseError;
use crate::sql::schema::Schema;

/// Why a statement was not served.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Another connection has the file just now. Nothing was done.
    Busy,
    Known(DatabaseError),
}

/// Of SQLite's result codes, those that tell what to do. The lowest byte is the kind.
mod code {
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const READ_ONLY: i32 = 8;
    pub(super) const IO: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANNOT_OPEN: i32 = 14;
    /// Two connections have come to the same lock of the WAL in an unlucky order.
    pub(super) const PROTOCOL: i32 = 15;
    pub(super) const NO_DATABASE: i32 = 26;
}

impl Trouble {
    pub(super) fn of(error: Error, path: &Path, schema: &Schema) -> Self {
        let path = path.to_path_buf();
        Self::Known(match kind(&error) {
            Some(code::BUSY | code::LOCKED | code::PROTOCOL) => return Self::Busy,
            Some(code::READ_ONLY) => DatabaseError::ReadOnly { path },
            Some(code::FULL) => DatabaseError::Full { path },
            Some(code::CANNOT_OPEN) => DatabaseError::CannotOpen { path },
            Some(code::CORRUPT | code::NO_DATABASE) => DatabaseError::NoDatabase { path },
            _ => {
                let what = error.to_string();
                let table = schema.leases().to_string();
                match () {
                    () if what.contains(&format!("no such table: {table}")) => {
                        DatabaseError::TableMissing { table }
                    }
                    () if what.contains("no such column") || what.contains("has no column") => {
                        DatabaseError::TableShape { table, what }
                    }
                    () => DatabaseError::Other { what },
                }
            }
        })
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
}

/// The lowest byte of SQLite's code.
fn kind(error: &Error) -> Option<i32> {
    let code: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}
