//! The meaning of an error of PostgreSQL.

use sqlx::Error;
use sqlx::postgres::PgDatabaseError;

use super::config::PostgresConfig;
use crate::sql::fault::DatabaseError;
use crate::sql::remote::Unserved;
use crate::sql::trouble::Trouble;

impl Unserved {
    pub(in crate::sql) fn of_postgres(error: Error, config: &PostgresConfig) -> Self {
        let server = config.server();
        let gone = |what: String, server| Self::Gone(DatabaseError::Unreachable { server, what });
        let Error::Database(error) = error else {
            return match error {
                Error::ColumnDecode { .. } | Error::Decode(_) | Error::RowNotFound => {
                    Self::Refused(DatabaseError::Other { what: error.to_string() })
                }
                error => gone(error.to_string(), server),
            };
        };
        let Some(error) = error.try_downcast_ref::<PgDatabaseError>() else {
            return gone(error.message().to_owned(), server);
        };
        let what = error.message().to_owned();
        let table = config.qualified_table();
        Self::Refused(match error.code() {
            // One of two transactions that stand in each other's way is ended.
            "40001" | "40P01" => return Self::Again(DatabaseError::RowLocked { table }),
            "55P03" => DatabaseError::RowLocked { table },
            "57014" => DatabaseError::StatementEnded { server },
            "53300" => DatabaseError::Connections { server },
            "53100" => DatabaseError::ServerFull { server },
            "25006" => DatabaseError::ReadOnlyServer { server, why: "read-only" },
            "28000" | "28P01" => DatabaseError::Login { server, what },
            "3D000" => DatabaseError::DatabaseMissing { server, database: config.database() },
            "42P01" | "3F000" => DatabaseError::TableMissing { table },
            "42703" | "42804" | "42883" | "23502" | "23514" => {
                DatabaseError::TableShape { table, what }
            }
            "42501" => right_missing(&what, config),
            // The server ends, or has not begun.
            code if code.starts_with("57P") || code.starts_with("08") => return gone(what, server),
            _ => DatabaseError::Other { what },
        })
    }
}

impl Trouble {
    /// The kind of an error by its code at PostgreSQL, in a connection that is handed in.
    pub(in crate::sql) fn of_postgres(error: &Error) -> Self {
        let code = error.as_database_error().and_then(|error| error.code());
        match code.as_deref() {
            // A serialisation failure, a deadlock, a row that was waited for too long.
            Some("40001" | "40P01" | "55P03") => Self::Busy,
            Some("57014") => Self::Ended,
            Some("42P01" | "3F000") => Self::NoTable,
            Some("42703" | "42804" | "42883" | "42P10" | "23502" | "23514") => Self::OtherShape,
            Some("42501") => Self::NoRight,
            Some("25006") => Self::ReadOnly,
            Some("53100") => Self::Full,
            _ => Self::Other,
        }
    }
}

/// The error that says what to grant, by the words of the server:
/// `permission denied for table lock_leases`.
fn right_missing(what: &str, config: &PostgresConfig) -> DatabaseError {
    let user = config.user();
    match what.strip_prefix("permission denied for ") {
        Some(thing) if thing.starts_with("schema ") => {
            let right = format!("use the {thing}");
            DatabaseError::RightMissing {
                right,
                grant: format!("GRANT USAGE ON {thing} TO {user}"),
            }
        }
        Some(thing) if thing.starts_with("table ") => {
            table_right_missing(config, "SELECT, INSERT, UPDATE, DELETE")
        }
        _ => DatabaseError::RightMissing {
            right: format!("do this ({what})"),
            grant: format!("GRANT … TO {user}"),
        },
    }
}

/// The rights that the locks need on their table.
pub(super) fn table_right_missing(config: &PostgresConfig, rights: &str) -> DatabaseError {
    let (table, user) = (config.qualified_table(), config.user());
    DatabaseError::RightMissing {
        right: format!("{rights} in `{table}`"),
        grant: format!("GRANT {rights} ON {table} TO {user}"),
    }
}
