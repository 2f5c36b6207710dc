//! The verbs, for every database: read the row, ask the machine what becomes of it, write that if
//! the row is still the one that was read.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scopeguard::{ScopeGuard, guard};
use sqlx::pool::PoolConnection;
use sqlx::{Database, Pool};

use super::columns::COLUMNS;
use super::dialect::{Passes, RecordDialect, Seen};
use super::sweep::{self, Sweeps};
use super::verbs;
use crate::backend::{Fault, FaultKind};
use crate::ground::clock;
use crate::ground::timeout::within;
use crate::records::{
    BoxFuture, ClaimRecord, Claimed, Fingerprint, Found, Outcome, RECORD_TTL_MAX, RecordId,
    RecordStore, RecordTable, Row, Step, Written, row,
};
use crate::sql::runs::{Value, make, other_engine};
use crate::sql::{DatabaseError, TableName};
use crate::token::FencingToken;

/// How long a verb may take.
pub(super) const REQUEST_WITHIN: Duration = Duration::from_secs(2);

/// How long one waits, at most, before it asks a busy database again; drawn anew each time. Many
/// who wait for the same time would meet again.
const BUSY_PAUSE_MAX: Duration = Duration::from_millis(2);

/// The records in one table of a database.
pub(super) struct Kept<D: Database> {
    pub(super) pool: Pool<D>,
    pub(super) table: TableName,
    place: RecordTable,
    sweeps: Arc<Sweeps>,
    /// There was a connection. Whatever keeps another one from being made may pass: a password that
    /// is replaced, descriptors that are used up.
    was_open: AtomicBool,
}

/// A connection while it runs a statement. Where that is given up, a server may not answer over it
/// any more, and a pool would wait for that without a bound.
type InUse<D> = ScopeGuard<PoolConnection<D>, fn(PoolConnection<D>)>;

impl<D: RecordDialect> Kept<D> {
    pub(super) fn new(pool: Pool<D>, table: TableName) -> Self {
        let place = RecordTable::new(D::NAME, table.to_string());
        Self { pool, table, place, sweeps: Arc::default(), was_open: AtomicBool::new(false) }
    }

    /// Makes the table, or looks whether that which is there will do.
    pub(super) async fn prepare(&self, makes: bool) -> Result<(), Fault> {
        let prepare = |mut connection: InUse<D>| async move {
            let statements = if makes { D::record_table(&self.table) } else { Vec::new() };
            let (table, columns) = (self.table.to_string(), COLUMNS.join(", "));
            let seen = match make::<D>(&mut connection, statements, &table, &columns).await {
                Ok(()) => other_engine::<D>(&mut connection, &table).await,
                Err(error) => Err(error),
            };
            (connection, seen)
        };
        match self.bounded(self.patiently(prepare)).await? {
            None => Ok(()),
            Some(engine) => {
                Err(DatabaseError::TableEngine { table: self.table.to_string(), engine }.into())
            }
        }
    }

    /// Removes rows whose life is over, at most so many.
    pub(super) async fn sweep(&self, rows_max: u32) -> Result<u64, Fault> {
        let sweep = |mut connection: InUse<D>| async move {
            let most = Value::from(i64::from(rows_max));
            let swept = D::run(&mut connection, D::sweep_records(&self.table), vec![most]).await;
            (connection, swept)
        };
        self.bounded(self.patiently(sweep)).await
    }

    async fn read(&self, id: RecordId) -> Result<Seen, Fault> {
        self.patiently(|mut connection| async move {
            let seen = verbs::read::<D>(&mut connection, &self.table, id, "").await;
            (connection, seen)
        })
        .await
    }

    /// Does what the machine says of the row, as often as another one is in its place by then.
    async fn step<A>(
        &self,
        id: RecordId,
        machine: impl Fn(Option<&Row>, i64) -> Step<A>,
    ) -> Result<A, Fault> {
        loop {
            let Seen { now, row } = self.read(id).await?;
            let (version, row) = match row {
                None => (None, None),
                Some((version, Ok(row))) => (Some(version), Some(row)),
                Some((_, Err(unsound))) => {
                    let what = format!(
                        "what is stored at {id} in the table `{}` is no idempotency record of this \
                         version: {}; it was left as it was",
                        self.table, unsound.0
                    );
                    return Err(Fault::new(FaultKind::ForeignValue, what));
                }
            };
            let (answer, next) = machine(row.as_ref(), now);
            let Some(next) = &next else { return Ok(answer) };
            let swap = |mut connection: InUse<D>| async move {
                let table = &self.table;
                let done = verbs::swap::<D>(&mut connection, table, id, version, next).await;
                (connection, done)
            };
            if self.patiently(swap).await? {
                return Ok(answer);
            }
        }
    }

    /// Runs a statement, and again while others are in its way. It commits by itself, so one that
    /// was refused for them has done nothing.
    ///
    /// A connection to a server that takes no writes any more is closed, as behind a failover the
    /// next one leads to another server. All that were open may be such.
    async fn patiently<T, F>(&self, statement: impl Fn(InUse<D>) -> F) -> Result<T, Fault>
    where
        F: Future<Output = (InUse<D>, Result<T, sqlx::Error>)>,
    {
        let mut open_before = self.pool.size();
        loop {
            let (connection, error) = match self.pool.acquire().await {
                Ok(connection) => {
                    self.was_open.store(true, Ordering::Relaxed);
                    let (in_use, answer) = statement(guard(connection, D::given_up)).await;
                    let connection = ScopeGuard::into_inner(in_use);
                    match answer {
                        Ok(answer) => return Ok(answer),
                        Err(error) => (Some(connection), error),
                    }
                }
                Err(error) => (None, error),
            };
            match (D::fault_of(&self.pool, &self.table, error), connection) {
                ((_, Passes::Soon), _) => {}
                ((fault, Passes::Elsewhere), Some(connection)) => {
                    // Its end is not waited for; the place is free at once.
                    drop(connection.detach());
                    if open_before == 0 {
                        return Err(fault);
                    }
                    open_before -= 1;
                    continue;
                }
                ((fault, _), None) if self.was_open.load(Ordering::Relaxed) => {
                    return Err(fault.passing());
                }
                ((fault, _), _) => return Err(fault),
            }
            let part = f64::from(clock::random_bits()) / f64::from(u32::MAX);
            clock::alarm_in(BUSY_PAUSE_MAX.mul_f64(part)).await;
        }
    }

    async fn bounded<T>(&self, verb: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        within(REQUEST_WITHIN, verb).await.unwrap_or_else(|_| {
            let what = format!(
                "the table `{}` was not to be had within {REQUEST_WITHIN:?}: another transaction \
                 writes for long, or all connections of the pool are in use",
                self.table
            );
            Err(Fault::new(FaultKind::Transient, what))
        })
    }
}

impl<D: RecordDialect> RecordStore for Arc<Kept<D>> {
    fn peek(&self, id: RecordId, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Found, Fault>> {
        let peek = self.step(id, move |row, now| (row::peek(row, fingerprint, now), None));
        Box::pin(self.bounded(peek))
    }

    fn claim<'a>(
        &'a self,
        id: RecordId,
        record: &'a ClaimRecord,
    ) -> BoxFuture<'a, Result<Claimed, Fault>> {
        let record = ClaimRecord { ttl: record.ttl.min(RECORD_TTL_MAX), ..*record };
        Box::pin(async move {
            let claim = self.step(id, |row, now| row::claim(row, &record, now));
            let claimed = self.bounded(claim).await?;
            if matches!(claimed, Claimed::Claimed { .. }) && self.sweeps.is_due() {
                let kept = self.clone();
                sweep::begin(&self.sweeps, move |rows_max| {
                    let kept = kept.clone();
                    async move { kept.sweep(rows_max).await }
                });
            }
            Ok(claimed)
        })
    }

    fn complete<'a>(
        &'a self,
        id: RecordId,
        token: FencingToken,
        outcome: &'a Outcome,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Written, Fault>> {
        let ttl = ttl.min(RECORD_TTL_MAX);
        Box::pin(self.bounded(async move {
            let complete = |mut connection: InUse<D>| async move {
                let (table, place) = (&self.table, (id, token));
                let done = verbs::complete::<D>(&mut connection, table, place, outcome, ttl).await;
                (connection, done)
            };
            if self.patiently(complete).await? {
                return Ok(Written::Yes);
            }
            // The row that is there instead says why.
            self.step(id, |row, now| row::complete(row, token, outcome, ttl, now)).await
        }))
    }

    fn abort(&self, id: RecordId, token: FencingToken) -> BoxFuture<'_, Result<Written, Fault>> {
        Box::pin(self.bounded(self.step(id, move |row, now| row::abort(row, token, now))))
    }

    fn table(&self) -> Option<&RecordTable> {
        Some(&self.place)
    }
}

impl<D: Database> fmt::Debug for Kept<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the options of the pool: other databases have passwords in them.
        f.debug_struct("Kept").field("table", &self.table).finish_non_exhaustive()
    }
}
