//! Why an execution was not completed in its transaction.

use super::error::CompleteError;
use crate::records::RecordId;
use crate::sql::InTransactionError;
use crate::token::FencingToken;

/// Why a record is not completed in this transaction: roll it back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompleteInError {
    /// Another execution has taken over, or the record has lived its time, or the transaction is one
    /// of another database, which has a table of that name.
    #[error(
        "idempotency record {id} is not in flight under token {token} in the database of this \
         transaction: roll it back"
    )]
    Stale {
        /// The record.
        id: RecordId,
        /// The token of the execution.
        token: FencingToken,
    },
    /// The records of this engine are in no table. Nothing was sent.
    #[error(
        "idempotency records that are kept in {kept} cannot be completed in a transaction of \
         {transaction}: keep them in that database, as with `SqlRecords`"
    )]
    OtherStore {
        /// The place in which the records are kept.
        kept: &'static str,
        /// The kind of database of the transaction, as sqlx calls it.
        transaction: &'static str,
    },
    /// The database did not take it.
    #[error("idempotency record {id} is not completed, so roll the transaction back")]
    Database {
        /// The record.
        id: RecordId,
        /// The reason.
        #[source]
        source: InTransactionError,
    },
}

impl CompleteInError {
    /// Whether another execution has taken over, or the record is gone.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. })
    }

    /// Whether the transaction may pass if it is done again from its beginning, under the same
    /// execution.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        let Self::Database { source, .. } = self else { return false };
        match source {
            InTransactionError::Busy { .. } | InTransactionError::Ended { .. } => true,
            InTransactionError::Database { source } => matches!(source, sqlx::Error::Io(_)),
            _ => false,
        }
    }
}

/// Why an execution did not end with its transaction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The record could not be completed in it. It was rolled back.
    #[error(transparent)]
    Complete(#[from] CompleteInError),
    /// It was rolled back: neither the effect nor the record is there, and a retry runs.
    #[error("the transaction of idempotency record {id} was not committed")]
    NotCommitted {
        /// The record.
        id: RecordId,
        /// The database's answer to the commit.
        #[source]
        source: sqlx::Error,
    },
    /// Something that a handler has left behind keeps its transaction, as a task that it has
    /// spawned. It is rolled back when that is dropped, and a retry runs.
    #[error(
        "the handler of idempotency record {id} has returned, and something else has its \
         transaction still: nothing was committed"
    )]
    Kept {
        /// The record.
        id: RecordId,
    },
    /// Work in it was stopped in the middle, as by the loss of a lock inside, whatever was returned
    /// for it. It was rolled back, and the execution has left no outcome.
    #[error(
        "work in the transaction of idempotency record {id} was stopped in the middle, so it was \
         rolled back"
    )]
    Cut {
        /// The record.
        id: RecordId,
    },
    /// There was no transaction, and the record could not be written by itself.
    #[error(transparent)]
    Record(#[from] CompleteError),
    /// The commit was not answered, and neither was the question what became of it. Both the effect
    /// and the record are there, or neither is: a retry is told.
    #[error("it is not known whether the transaction of idempotency record {id} was committed")]
    Unknown {
        /// The record.
        id: RecordId,
        /// The database's answer to the commit.
        #[source]
        source: sqlx::Error,
    },
}

impl CommitError {
    /// Whether another execution has taken over, or the record is gone.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        match self {
            Self::Complete(error) => error.is_stale(),
            Self::Record(error) => error.is_stale(),
            Self::Kept { .. }
            | Self::Cut { .. }
            | Self::NotCommitted { .. }
            | Self::Unknown { .. } => false,
        }
    }

    /// Whether the same call may succeed later without a change by the caller: it runs, or is given
    /// what another has kept. After [`Cut`](Self::Cut) `on_unknown` decides about it.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Complete(error) => error.is_stale() || error.is_retryable(),
            Self::Record(CompleteError::Unavailable { fault, .. }) => fault.is_transient(),
            Self::Record(CompleteError::Stale { .. }) => true,
            Self::Kept { .. } => false,
            Self::Cut { .. } | Self::NotCommitted { .. } | Self::Unknown { .. } => true,
        }
    }

    /// Whether it is not known what has happened.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }
}

/// Why there is no transaction to work in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TxError {
    /// Nobody would commit it.
    #[error(
        "this transaction would never be committed: put an `IdempotencyLayer` around the handler, \
         and require a key, or name it in `#[idempotent(tx = ..)]`"
    )]
    Unseated,
    /// The execution has another one, which is open or has been written in: it is completed in one
    /// alone.
    #[error(
        "the execution has another transaction already, and is committed with one alone: take one \
         `Tx`, and work in that"
    )]
    Second,
    /// The database has not begun one.
    #[error("no transaction was begun: {0}")]
    Database(#[from] sqlx::Error),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Fault, FaultKind};

    #[test]
    fn what_would_fail_again_is_not_to_be_tried_again() {
        let (id, token) = (RecordId::from_bytes([7; 32]), FencingToken::new(1));
        let not_taken = |source| CommitError::from(CompleteInError::Database { id, source });
        let io = || sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        let other = || sqlx::Error::RowNotFound;
        let record = |kind| CompleteError::Unavailable { id, fault: Fault::new(kind, "why") };
        let stale_alone = CompleteError::Stale { id, token };
        for (error, again) in [
            (CompleteInError::Stale { id, token }.into(), true),
            (CompleteInError::OtherStore { kept: "memory", transaction: "SQLite" }.into(), false),
            (not_taken(InTransactionError::Busy { source: other() }), true),
            (not_taken(InTransactionError::Ended { source: other() }), true),
            (not_taken(InTransactionError::Database { source: io() }), true),
            (not_taken(InTransactionError::Database { source: other() }), false),
            (not_taken(InTransactionError::NoTransaction), false),
            (CommitError::NotCommitted { id, source: other() }, true),
            (CommitError::Unknown { id, source: io() }, true),
            (CommitError::Cut { id }, true),
            (CommitError::Kept { id }, false),
            (stale_alone.into(), true),
            (record(FaultKind::Transient).into(), true),
            (record(FaultKind::Refused).into(), false),
        ] {
            assert_eq!(error.is_retryable(), again, "{error:?}");
        }
    }
}
