//! The reasons why a check did not pass.

use crate::error::LostError;
use crate::key::{Key, KeyError};
use crate::sql::TableName;
use crate::token::FencingToken;

/// The reason why a holder may not write. Roll the transaction back in each case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// A later holder has written the resource. This one knows an old state of it.
    #[error(
        "a later holder has written `{resource}` under token {seen}, and this one has {token}: roll \
         the transaction back, and begin anew under a lock of your own"
    )]
    Stale {
        /// The resource, which a later holder has written.
        resource: Key,
        /// The token of this holder.
        token: FencingToken,
        /// The token of the later one.
        seen: FencingToken,
    },
    /// The lock is lost by this process's own clock. Nothing was sent.
    #[error(
        "the lock on `{key}` is not held any more, so nothing may be written to `{resource}` under \
         its token {token}: roll the transaction back"
    )]
    NotHeld {
        /// The resource that was to be written.
        resource: Key,
        /// The key of the lock.
        key: Key,
        /// The token of this holder.
        token: FencingToken,
        /// The cause of the loss; none after a release.
        #[source]
        lost: Option<LostError>,
    },
    /// The name of the resource is empty or too long. Nothing was sent.
    #[error("what is to be fenced has no name")]
    Resource(#[from] KeyError),
    /// No transaction is open on the connection, so the check would be over before the write.
    /// Nothing was sent.
    #[error(
        "`{resource}` is fenced in the transaction that writes it, and none is open on this \
         connection: begin one with sqlx's `begin`, and check in it; a deadlock, a statement that \
         defines a table or one that says `OR ROLLBACK` may have ended it"
    )]
    NoTransaction {
        /// The resource that was to be written.
        resource: Key,
    },
    /// There is no table of the fences.
    #[error(
        "the table `{table}` is missing: make it with `Fences::migrate`, or with the statements of \
         `Fences::statements`"
    )]
    TableMissing {
        /// Its name.
        table: TableName,
        /// The error that sqlx gave.
        #[source]
        source: sqlx::Error,
    },
    /// A table of that name is there, and is none of ours. It was left as it is.
    #[error("the table `{table}` has another shape: name another one with `Fences::in_table`")]
    TableShape {
        /// Its name.
        table: TableName,
        /// The error that sqlx gave.
        #[source]
        source: sqlx::Error,
    },
    /// The table is kept by an engine of MySQL or MariaDB that has no transactions, where a fence
    /// holds up nobody.
    #[error(
        "the table `{table}` is kept by the engine {engine}, which has no transactions: roll this one \
         back, and have its owner say `ALTER TABLE {table} ENGINE = InnoDB`"
    )]
    TableEngine {
        /// Its name.
        table: TableName,
        /// The engine.
        engine: String,
    },
    /// The login of the transaction may not read and write the table.
    #[error(
        "the login of this transaction may not use the table `{table}`: have its owner say `GRANT \
         SELECT, INSERT, UPDATE ON {table} TO …`"
    )]
    RightMissing {
        /// Its name.
        table: TableName,
        /// The error that sqlx gave.
        #[source]
        source: sqlx::Error,
    },
    /// Another transaction writes, or has written since this one read. PostgreSQL calls it a
    /// serialisation failure or a deadlock.
    #[error(
        "another transaction writes beside this one: roll it back and begin it anew, with the check \
         of the fence as its first statement"
    )]
    Busy {
        /// The error that sqlx gave.
        #[source]
        source: sqlx::Error,
    },
    /// The server ended the check, which waited for another transaction for too long, or was
    /// cancelled.
    #[error(
        "the check of the fence was ended by the server, as it took too long or was cancelled: roll \
         the transaction back, and begin it anew"
    )]
    Ended {
        /// The error that sqlx gave.
        #[source]
        source: sqlx::Error,
    },
    /// The database says something else.
    #[error("the fence could not be checked: roll the transaction back")]
    Database {
        /// The error that sqlx gave.
        #[source]
        source: sqlx::Error,
    },
}

impl FenceError {
    /// Whether this holder is not the last one any more: it must not write, now or later.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. } | Self::NotHeld { .. })
    }

    /// Whether the same transaction may pass if it is begun anew, under the same lock.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Ended { .. })
    }
}
