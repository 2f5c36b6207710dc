//! What a database spells its own way of a record.

use std::future::Future;
use std::time::Duration;

use crate::backend::Fault;
use crate::records::{Outcome, RecordId, Row};
use crate::sql::{TableName, Trouble};
use crate::token::FencingToken;

/// A database that can keep the records of idempotency. Nobody else can implement it.
///
/// Each of these is one statement, but for those that make the table. None of them begins a
/// transaction or ends one, so they commit by themselves, or with the transaction around them.
pub trait RecordDialect: sqlx::Database {
    /// The statements that make the table, if it is missing.
    #[doc(hidden)]
    fn record_table(table: &TableName) -> Vec<String>;

    /// Makes the table, or looks whether that which is there will do.
    #[doc(hidden)]
    fn make_records<'c>(
        connection: &'c mut Self::Connection,
        table: &'c TableName,
        makes: bool,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send + 'c;

    /// The row of an id, and the time.
    #[doc(hidden)]
    fn read_record<'c>(
        connection: &'c mut Self::Connection,
        table: &'c TableName,
        id: RecordId,
    ) -> impl Future<Output = Result<Seen, sqlx::Error>> + Send + 'c;

    /// Puts a row in the place of the one that was read; `false` where that is another by now.
    #[doc(hidden)]
    fn swap_record<'c>(
        connection: &'c mut Self::Connection,
        table: &'c TableName,
        id: RecordId,
        seen: Option<Version>,
        row: &'c Row,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send + 'c;

    /// Completes what is in flight under this very token; `false` where there is no such thing, or
    /// it is not sound, and nothing was written.
    #[doc(hidden)]
    fn complete_record<'c>(
        connection: &'c mut Self::Connection,
        table: &'c TableName,
        id: RecordId,
        token: FencingToken,
        outcome: &'c Outcome,
        ttl: Duration,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send + 'c;

    /// Removes rows whose life is over, at most so many, and tells how many.
    #[doc(hidden)]
    fn sweep_records<'c>(
        connection: &'c mut Self::Connection,
        table: &'c TableName,
        rows_max: u32,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send + 'c;

    /// Begins a transaction that is known to write.
    #[doc(hidden)]
    fn begin(
        pool: &sqlx::Pool<Self>,
    ) -> impl Future<Output = Result<sqlx::Transaction<'static, Self>, sqlx::Error>> + Send;

    /// What an error is about.
    #[doc(hidden)]
    fn trouble(error: &sqlx::Error) -> Trouble;

    /// What an error means to who asked, and whether the database was busy with others.
    #[doc(hidden)]
    fn fault_of(pool: &sqlx::Pool<Self>, table: &TableName, error: sqlx::Error) -> (Fault, IsBusy);
}

/// Whether another transaction was in the way, so that the same statement may pass soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IsBusy(pub bool);

/// What a row was when it was read: nobody has written it since, if it is so still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    pub(super) number: i64,
    /// A row that was removed and made anew begins with the same number.
    pub(super) token: i64,
    pub(super) until: i64,
}

/// What is in the place of a record, and when it was read.
#[derive(Debug)]
pub struct Seen {
    /// In milliseconds since 1970, by the clock of the database.
    pub(super) now: i64,
    pub(super) row: Option<(Version, Result<Row, Unsound>)>,
}

/// A row of another version, a truncated one, or one that we do not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsound(pub(super) &'static str);
