//! An outcome that is written in a transaction of the user's.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::transaction_error::CompleteInError;
use crate::backend::Fault;
use crate::records::{Outcome, RecordTable};
use crate::sql::{RecordDialect, TableName};

/// The place of a record, and how long its outcome is kept.
#[derive(Debug, Clone)]
pub(super) struct Destination {
    pub(super) table: Option<RecordTable>,
    pub(super) ttl: Duration,
}

impl Destination {
    /// The table, for a transaction of this kind of database.
    pub(super) fn in_database<D: RecordDialect>(&self) -> Result<TableName, CompleteInError> {
        let kept = self.table.as_ref().map_or("no table of a database", RecordTable::database);
        let other = CompleteInError::OtherStore { kept, transaction: D::NAME };
        let table = self.table.as_ref().filter(|table| table.database() == D::NAME);
        table.map(|table| TableName::of_records(table.name())).ok_or(other)
    }
}

/// An outcome that was written in a transaction, which may be committed or not.
#[derive(Debug)]
pub(super) struct InDoubt {
    pub(super) outcome: Outcome,
    /// Its record lives up to here, if there is one. Behind that nothing is to be found, whatever
    /// has happened.
    pub(super) lives_until: Instant,
}

/// The sender with which the task says whether a transaction was committed.
pub(super) type Verdict = oneshot::Sender<Result<bool, Fault>>;
