//! A record that is completed in a transaction of the user's.

use sqlx::Transaction;

use super::dialect::{RecordDialect, Seen};
use super::verbs;
use crate::records::{Outcome, RecordId, Written, row};
use crate::sql::{TableName, Trouble};
use crate::token::FencingToken;

/// The reason why a record could not be completed in a transaction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InTransactionError {
    /// The table of the records is missing in the database of the transaction.
    #[error(
        "the table `{table}` is missing in the database of this transaction: begin it in the \
         database that keeps the records"
    )]
    TableMissing {
        /// Its name.
        table: TableName,
        /// The error that sqlx gave.
        #[source]
        source: sqlx::Error,
    },
    /// The row in the place of the record is of another version, or damaged.
    #[error(
        "what is stored in the table `{table}` in the place of the record is none of this version: \
         {what}; it was left as it was"
    )]
    Unsound {
        /// The table.
        table: TableName,
        /// A description of what is wrong with it.
        what: &'static str,
    },
    /// A table of that name is there, and is none of ours. It was left as it is.
    #[error(
        "the table `{table}` in the database of this transaction has another shape: begin it in the \
         database that keeps the records"
    )]
    TableShape {
        /// Its name.
        table: TableName,
        /// The error that sqlx gave.
        #[source]
        source: sqlx::Error,
    },
    /// The login of the transaction may not read and write the table.
    #[error(
        "the login of this transaction may not use the table `{table}`: have its owner say `GRANT \
         SELECT, INSERT, UPDATE, DELETE ON {table} TO …`"
    )]
    RightMissing {
        /// Its name.
        table: TableName,
        /// The error that sqlx gave.
        #[source]
        source: sqlx::Error,
    },
    /// The server ended the statement: it took too long, or was cancelled.
    #[error(
        "the server ended the statement that completes the record, as it took too long or was \
         cancelled: roll the transaction back, and do it again from its beginning"
    )]
    Ended {
        /// The error that sqlx gave.
        #[source]
        source: sqlx::Error,
    },
    /// The database has ended the transaction, as by a deadlock, by a statement that defines a table, or
    /// by one that says `OR ROLLBACK`. The writes since then are committed, statement for statement.
    #[error(
        "this transaction is over at the database, which ended it at an earlier statement: do it \
         again from its beginning"
    )]
    NoTransaction,
    /// Another transaction writes, or has written since this one read. PostgreSQL calls it a
    /// serialisation failure or a deadlock.
    #[error(
        "another transaction writes beside this one: roll it back, and do it again from its beginning"
    )]
    Busy {
        /// The error that sqlx gave.
        #[source]
        source: sqlx::Error,
    },
    /// The database says something else.
    #[error("the record could not be written")]
    Database {
        /// The error that sqlx gave.
        #[source]
        source: sqlx::Error,
    },
}

/// Completes a record in a transaction, which decides whether that has happened.
pub(crate) async fn complete_in<D: RecordDialect>(
    tx: &mut Transaction<'_, D>,
    table: &TableName,
    (id, token): (RecordId, FencingToken),
    outcome: &Outcome,
    ttl: std::time::Duration,
) -> Result<Written, InTransactionError> {
    let fault = |source| match D::trouble(&source) {
        Trouble::NoTable => InTransactionError::TableMissing { table: table.clone(), source },
        Trouble::OtherShape => InTransactionError::TableShape { table: table.clone(), source },
        Trouble::NoRight => InTransactionError::RightMissing { table: table.clone(), source },
        Trouble::Busy => InTransactionError::Busy { source },
        Trouble::Ended => InTransactionError::Ended { source },
        _ => InTransactionError::Database { source },
    };
    if !D::is_open(&mut *tx).await.map_err(fault)? {
        return Err(InTransactionError::NoTransaction);
    }
    if verbs::complete::<D>(&mut *tx, table, (id, token), outcome, ttl).await.map_err(fault)? {
        return Ok(Written::Yes);
    }
    loop {
        // The row that is there instead says why. An old snapshot would say that the record is
        // gone.
        D::look_afresh(&mut *tx, table, id).await.map_err(fault)?;
        let Seen { now, row } =
            verbs::read::<D>(&mut *tx, table, id, D::PRESENT).await.map_err(fault)?;
        let (seen, row) = match row {
            Some((_, Err(unsound))) => {
                return Err(InTransactionError::Unsound { table: table.clone(), what: unsound.0 });
            }
            Some((seen, Ok(row))) => (seen, row),
            None => return Ok(Written::Stale),
        };
        match row::complete(Some(&row), token, outcome, ttl, now) {
            // It is in flight under this token after all: another execution, which had it in
            // between, has given it back.
            (Written::Yes, Some(next)) => {
                if verbs::swap::<D>(&mut *tx, table, id, Some(seen), &next).await.map_err(fault)? {
                    return Ok(Written::Yes);
                }
            }
            (written, _) => return Ok(written),
        }
    }
}
