//! The meaning of an error of MySQL or MariaDB.

use sqlx::Error;
use sqlx::mysql::MySqlDatabaseError;

use super::config::MysqlConfig;
use crate::sql::fault::DatabaseError;
use crate::sql::remote::Unserved;
use crate::sql::trouble::Trouble;

/// A row of that key is there.
const DUPLICATE: u16 = 1_062;

/// Whether a row of that key is there already.
pub(super) fn is_duplicate(error: &Error) -> bool {
    number(error) == Some(DUPLICATE)
}

/// The server's number of an error.
pub(super) fn number(error: &Error) -> Option<u16> {
    let error = error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(error.number())
}

impl Unserved {
    pub(in crate::sql) fn of_mysql(error: Error, config: &MysqlConfig) -> Self {
        let server = config.server();
        let what = match &error {
            Error::Database(error) => error.message().to_owned(),
            error => error.to_string(),
        };
        let Some(number) = number(&error) else {
            return match error {
                Error::ColumnDecode { .. } | Error::Decode(_) | Error::RowNotFound => {
                    Self::Refused(DatabaseError::Other { what })
                }
                // The server wants a password in a way that needs TLS.
                Error::Configuration(_) => Self::Refused(DatabaseError::Login { server, what }),
                _ => Self::Gone(DatabaseError::Unreachable { server, what }),
            };
        };
        let table = config.params.table.to_string();
        Self::Refused(match number {
            // A deadlock, or one that the nodes of a cluster made out when it committed; a row that
            // is another by now.
            1_213 | 1_020 => return Self::Again(DatabaseError::RowLocked { table }),
            1_205 => return Self::Waited(DatabaseError::RowLocked { table }),
            1_317 | 1_969 | 3_024 => DatabaseError::StatementEnded { server },
            1_040 | 1_203 | 1_226 => DatabaseError::Connections { server },
            1_021 | 1_114 => DatabaseError::ServerFull { server },
            1_290 | 1_792 | 1_836 => DatabaseError::ReadOnlyServer { server, why: "read-only" },
            // A node of Galera, before it does anything.
            1_047 => DatabaseError::ReadOnlyServer { server, why: "cut off from its cluster" },
            1_665 => DatabaseError::Option {
                option: "binlog_format=STATEMENT",
                why: "what is written at READ COMMITTED is logged by rows; have an administrator say \
                      `SET GLOBAL binlog_format = 'MIXED'`, or `'ROW'`",
            },
            1_045 | 1_129 | 1_130 | 1_251 | 1_698 | 1_820 | 1_862 | 3_159 => {
                DatabaseError::Login { server, what }
            }
            1_049 | 1_046 => DatabaseError::DatabaseMissing { server, database: config.database() },
            1_044 => DatabaseError::RightMissing {
                right: format!("use the database `{}`", config.database()),
                grant: grant("SELECT, INSERT, UPDATE, DELETE", config, None),
            },
            1_142 | 1_143 | 1_227 => right_missing(&what, config, None),
            1_146 => DatabaseError::TableMissing { table },
            1_054 | 1_136 | 1_364 | 1_366 | 1_048 | 1_264 | 1_265 | 1_406 | 4_025 | 3_819 => {
                DatabaseError::TableShape { table, what }
            }
            // The server ends, or an administrator has ended the connection.
            1_053 | 1_077 | 1_079 | 1_152..=1_161 | 1_184 | 1_927 | 4_031 => {
                return Self::Gone(DatabaseError::Unreachable { server, what });
            }
            _ => DatabaseError::Other { what },
        })
    }
}

impl Trouble {
    /// The kind of an error by its number at MySQL, in a connection that is handed in.
    pub(in crate::sql) fn of_mysql(error: &Error) -> Self {
        match number(error) {
            Some(1_213 | 1_020 | 1_205) => Self::Busy,
            Some(1_317 | 1_969 | 3_024) => Self::Ended,
            Some(1_146) => Self::NoTable,
            Some(1_054 | 1_136 | 1_364 | 1_366 | 1_048 | 1_264 | 1_265 | 1_406 | 4_025 | 3_819) => {
                Self::OtherShape
            }
            Some(1_142 | 1_143 | 1_044) => Self::NoRight,
            Some(1_290 | 1_792 | 1_836) => Self::ReadOnly,
            Some(1_021 | 1_114) => Self::Full,
            _ => Self::Other,
        }
    }
}

/// The error that says what to grant to `who`, by the words of the server:
/// `INSERT command denied to user …`.
pub(super) fn right_missing(what: &str, config: &MysqlConfig, who: Option<&str>) -> DatabaseError {
    let rights = match what.split_once(" command denied") {
        Some((rights, _)) => rights,
        None => "SELECT, INSERT, UPDATE, DELETE",
    };
    DatabaseError::RightMissing {
        right: format!("{rights} in `{}`", config.params.table),
        grant: grant(rights, config, who),
    }
}

fn grant(rights: &str, config: &MysqlConfig, who: Option<&str>) -> String {
    let who = match who.and_then(|who| who.rsplit_once('@')) {
        Some((user, host)) => format!("'{user}'@'{host}'"),
        None => format!("'{}'", config.user()),
    };
    format!("GRANT {rights} ON `{}`.{} TO {who}", config.database(), config.params.table)
}
