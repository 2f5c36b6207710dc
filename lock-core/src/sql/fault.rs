//! The errors of a database, and what to do.

use std::path::PathBuf;
use std::time::Duration;

use crate::backend::{Fault, FaultKind};

/// The reason why a database did not serve a lock. It is the
/// [`source`](std::error::Error::source) of the [`Fault`] that clients are told of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// A table would need quotes, or has a name that is too long.
    #[error(
        "`table` is a name of 1 to 48 lower-case letters, digits and `_`, and begins with a letter"
    )]
    TableName,
    /// There is no such table. Nothing was made.
    #[error(
        "the table `{table}` is missing: make it with `migrate()`, with the statements of \
         `schema()`, or with `?create=true` in the URL"
    )]
    TableMissing {
        /// Its name.
        table: String,
    },
    /// A table of that name is there, and is none of ours. It was left as it is.
    #[error(
        "the table `{table}` has another shape: {what}; give the locks a name of their own with `?table=`"
    )]
    TableShape {
        /// Its name.
        table: String,
        /// The difference.
        what: String,
    },
    /// A table is kept by an engine of MySQL or MariaDB that has no transactions. It was left as it
    /// is.
    #[error(
        "the table `{table}` is kept by the engine {engine}, and has to be by one with transactions: \
         have its owner say `ALTER TABLE {table} ENGINE = InnoDB`"
    )]
    TableEngine {
        /// Its name.
        table: String,
        /// The engine.
        engine: String,
    },
    /// There is no such file, and `create` was not asked for.
    #[error("there is no file `{}`: make it with `?create=true`, or look where the service was started", path.display())]
    FileMissing {
        /// The file.
        path: PathBuf,
    },
    /// A folder is there in place of a file.
    #[error("`{}` is a folder: name a file in it", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// The file cannot be opened: a right or a folder on the way is missing.
    #[error(
        "`{}` cannot be opened: the service needs the right to read and write it, and to make files \
         beside it",
        path.display()
    )]
    CannotOpen {
        /// The file.
        path: PathBuf,
    },
    /// It may be read only, and a lock has to be written.
    #[error(
        "`{}` is read-only: the service needs the right to write it, and to make files beside it",
        path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// It is a file of another kind, or is damaged.
    #[error("`{}` is no SQLite database, or is damaged: name another file", path.display())]
    NoDatabase {
        /// The file.
        path: PathBuf,
    },
    /// The disk is full. Nothing was written.
    #[error("the disk under `{}` is full: free some room; locks go on by themselves then", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Others have held the file for too long. Nothing was written.
    #[error(
        "`{}` was busy for {waited:?}: another connection keeps a write transaction open; end it \
         sooner, or give the locks a file of their own",
        path.display()
    )]
    Busy {
        /// The file.
        path: PathBuf,
        /// The time for which it was asked.
        waited: Duration,
    },
    /// The name or the password is wrong, or the server lets nobody of that name in.
    #[error("the server at {server} does not let this login in: {what}")]
    Login {
        /// The address of the server.
        server: String,
        /// The message of the server.
        what: String,
    },
    /// There is no database of that name.
    #[error(
        "there is no database `{database}` at {server}: make it, or name another in the path of the \
         URL"
    )]
    DatabaseMissing {
        /// The address of the server.
        server: String,
        /// Its name.
        database: String,
    },
    /// The server may be read only, and a lock has to be written: it is a replica, or is kept so.
    #[error("the server at {server} is {why}: name the one that takes writes")]
    ReadOnlyServer {
        /// The address of the server.
        server: String,
        /// The reason why it takes no writes.
        why: &'static str,
    },
    /// The login has not all the rights that the locks need.
    #[error("the login may not {right}: have its owner or an administrator say `{grant}`")]
    RightMissing {
        /// The right that the login lacks.
        right: String,
        /// The statement that gives it the right.
        grant: String,
    },
    /// The server has all the connections that it takes.
    #[error("the server at {server} takes no more connections: raise its limit, or end some")]
    Connections {
        /// The address of the server.
        server: String,
    },
    /// Another transaction has kept a row for too long. Nothing was written.
    #[error(
        "a row of the table `{table}` is locked by another transaction: end it sooner, and lock no \
         rows of this table"
    )]
    RowLocked {
        /// The table.
        table: String,
    },
    /// The server ended a statement that took too long. Nothing was written.
    #[error("the server at {server} ended a statement: it took too long, or was cancelled")]
    StatementEnded {
        /// The address of the server.
        server: String,
    },
    /// The disk of the server is full. Nothing was written.
    #[error(
        "the disk of the server at {server} is full: free some room; locks go on by themselves then"
    )]
    ServerFull {
        /// The address of the server.
        server: String,
    },
    /// Something between here and the server does not take what was asked for.
    #[error("`{option}` cannot be had here: {why}")]
    Option {
        /// The option.
        option: &'static str,
        /// The reason, and what to do.
        why: &'static str,
    },
    /// The server cannot be reached, or the connection ended before an answer.
    #[error("no connection to the server at {server}: {what}")]
    Unreachable {
        /// The address of the server.
        server: String,
        /// A description of what was wrong.
        what: String,
    },
    /// A row was written by something else, or by a later version.
    #[error(
        "the row of `{key}` in the table `{table}` cannot be read: {what}; it was left as it is"
    )]
    Row {
        /// The key.
        key: String,
        /// The table.
        table: String,
        /// A description of what is odd about it.
        what: String,
    },
    /// The database says something else, or there was no answer in time.
    #[error("the database did not serve the request: {what}")]
    Other {
        /// The message of the database, or a description of what went wrong.
        what: String,
    },
}

impl DatabaseError {
    /// The kind of fault: whether asking again may help, or something of another kind is in the
    /// way.
    fn kind(&self) -> FaultKind {
        match self {
            Self::Full { .. }
            | Self::Busy { .. }
            | Self::Other { .. }
            | Self::ReadOnlyServer { .. }
            | Self::Connections { .. }
            | Self::RowLocked { .. }
            | Self::StatementEnded { .. }
            | Self::ServerFull { .. }
            | Self::Unreachable { .. } => FaultKind::Transient,
            Self::TableShape { .. } | Self::Row { .. } | Self::NoDatabase { .. } => {
                FaultKind::ForeignValue
            }
            _ => FaultKind::Refused,
        }
    }
}

/// An answer that is none.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(super) fn odd(error: sqlx::Error) -> Fault {
    DatabaseError::Other { what: error.to_string() }.into()
}

impl From<DatabaseError> for Fault {
    fn from(error: DatabaseError) -> Self {
        Self::new(error.kind(), error.to_string()).with_source(error)
    }
}
