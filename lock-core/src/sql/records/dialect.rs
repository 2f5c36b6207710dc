//! The statements of a record that a database spells its own way.

use std::future::Future;
use std::panic::resume_unwind;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, Pool, Transaction};

use crate::backend::Fault;
use crate::ground::clock;
use crate::ground::timeout::within;
use crate::records::{RecordId, Row};
use crate::sql::TableName;
use crate::sql::runs::Runs;

/// How long a connection has to come to the end of a statement that was given up.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// How many connections there are at most beside a pool.
pub(super) const CONNECTIONS_MAX: u32 = 4;

/// A database that can keep the records of idempotency. Nobody else can implement it.
pub trait RecordDialect: Runs {
    /// The time in milliseconds since 1970, as it is written in a statement.
    #[doc(hidden)]
    const NOW: &'static str;

    /// The end of a read in a transaction of a user's, so that it reads the present.
    #[doc(hidden)]
    const PRESENT: &'static str = "";

    /// The statements that make the table, if it is missing.
    #[doc(hidden)]
    fn record_table(table: &TableName) -> Vec<String>;

    /// Puts a row of these columns there, unless there is one of its id; given their values, of
    /// which that is the first.
    #[doc(hidden)]
    fn insert_record(table: &TableName, columns: &[&str]) -> String {
        let (names, places) = (columns.join(", "), vec!["?"; columns.len()].join(", "));
        format!("INSERT INTO {table} ({names}) VALUES ({places}) ON CONFLICT (id) DO NOTHING")
    }

    /// Removes rows whose life is over, given the most of them.
    #[doc(hidden)]
    fn sweep_records(table: &TableName) -> String;

    /// Sees to it, in a transaction of a user's, that what is read of a record next is not old. A
    /// database that reads from a snapshot there says so by an error.
    #[doc(hidden)]
    fn look_afresh(
        _connection: &mut Self::Connection,
        _table: &TableName,
        _id: RecordId,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send {
        std::future::ready(Ok(()))
    }

    /// A few connections of our own to the database of this pool.
    #[doc(hidden)]
    fn own_pool(pool: &Pool<Self>) -> Result<Pool<Self>, Fault>;

    /// Ends a connection whose statement was given up, unless it answers within a second. The pool
    /// itself would wait for that without a bound, and a server may never answer over it.
    #[doc(hidden)]
    fn given_up(mut connection: PoolConnection<Self>) {
        let Some(runtime) = clock::runtime() else { return drop(connection.detach()) };
        runtime.spawn(async move {
            if !matches!(within(ANSWERS_WITHIN, connection.ping()).await, Ok(Ok(()))) {
                drop(connection.detach());
            }
        });
    }

    /// Begins a transaction that is known to write.
    ///
    /// To its end, whoever drops this: sqlx counts a transaction once its beginning is answered. Before
    /// that, a connection that was let go of would be back in the pool of the user with one open.
    #[doc(hidden)]
    fn begin(
        pool: &Pool<Self>,
    ) -> impl Future<Output = Result<Transaction<'static, Self>, sqlx::Error>> + Send {
        let pool = pool.clone();
        async move {
            match tokio::spawn(async move { pool.begin().await }).await {
                Ok(begun) => begun,
                Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
                Err(_) => Err(sqlx::Error::WorkerCrashed),
            }
        }
    }

    /// The meaning of an error to who asked, and where the same statement may pass.
    #[doc(hidden)]
    fn fault_of(pool: &Pool<Self>, table: &TableName, error: sqlx::Error) -> (Fault, Passes);
}

/// Where a statement may pass that was refused, and has done nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    /// Nowhere, as far as is known.
    Nowhere,
    /// Here, and soon: another transaction was in the way.
    Soon,
    /// Over another connection, which may be one to a server that takes writes.
    Elsewhere,
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
impl crate::sql::remote::Unserved {
    /// The same of what a server refused.
    pub(super) fn passes(&self) -> Passes {
        use crate::sql::DatabaseError::ReadOnlyServer;
        match self {
            Self::Again(_) | Self::Waited(_) => Passes::Soon,
            Self::Refused(ReadOnlyServer { .. }) => Passes::Elsewhere,
            Self::Refused(_) | Self::Gone(_) => Passes::Nowhere,
        }
    }
}

/// The version of a row when it was read: nobody has written it since, if it is the same still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) number: i64,
    /// A row that was removed and made anew begins with the same number.
    pub(super) token: i64,
    pub(super) until: i64,
}

/// The row in the place of a record, if there is one, and when it was read.
#[derive(Debug)]
pub(super) struct Seen {
    /// In milliseconds since 1970, by the clock of the database.
    pub(super) now: i64,
    pub(super) row: Option<(Version, Result<Row, Unsound>)>,
}

/// A row of another version, a truncated one, or one that we do not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsound(pub(super) &'static str);
