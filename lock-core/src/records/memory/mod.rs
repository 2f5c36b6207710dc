//! Records in this process: for tests, and for services that run as one process. What a verb makes
//! of a record is said by the machine that other stores share; here is where the rows are.

mod rows;

use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;

use self::rows::Rows;
use super::fingerprint::Fingerprint;
use super::id::RecordId;
use super::row::{self, Row, State, Step};
use super::store::{BoxFuture, ClaimRecord, Claimed, Found, Outcome, RecordStore, Written};
use crate::backend::{Fault, FaultKind};
use crate::ground::{clock, lock};
use crate::token::FencingToken;

/// How many records there may be, unless [`MemoryRecords::with_records_max`] says otherwise.
const RECORDS_MAX: usize = 1 << 20;

/// Records in this process; clones share them. They do not survive it, so an execution that a
/// crash cut short is one that never was.
///
/// A record that has lived its time is gone with the next verb on any record. A claim beyond the
/// bound (1,048,576 records) is a transient fault: to forget a record early would be to run
/// something twice. The bound is one of records. The caller has to bound the bytes of a payload.
#[derive(Clone)]
pub struct MemoryRecords {
    rows: Arc<Mutex<Rows>>,
    records_max: usize,
    /// The times of rows are milliseconds since then.
    begun: Instant,
}

impl Default for MemoryRecords {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryRecords {
    /// No record yet.
    #[must_use]
    pub fn new() -> Self {
        Self { rows: Arc::default(), records_max: RECORDS_MAX, begun: clock::now() }
    }

    /// Replaces the bound on the number of records, at least 1.
    #[must_use]
    pub fn with_records_max(mut self, records: usize) -> Self {
        self.records_max = records.max(1);
        self
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.now().0.records()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows that live now.
    fn now(&self) -> (MutexGuard<'_, Rows>, i64) {
        let since = clock::now().saturating_duration_since(self.begun);
        let now = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let mut rows = lock(&self.rows);
        rows.expire(now);
        (rows, now)
    }

    /// Does what the machine says of the row.
    fn step<A: Send + 'static>(
        &self,
        id: RecordId,
        machine: impl FnOnce(Option<&Row>, i64) -> Step<A>,
    ) -> BoxFuture<'static, Result<A, Fault>> {
        let (mut rows, now) = self.now();
        let (answer, next) = machine(rows.get(id), now);
        let is_mark = |row: &Row| row.state == State::Mark;
        let is_new =
            rows.get(id).is_none_or(is_mark) && next.as_ref().is_some_and(|it| !is_mark(it));
        if is_new && rows.records() >= self.records_max {
            let what = format!(
                "there are {} records in memory, and no room for another",
                self.records_max
            );
            return Box::pin(ready(Err(Fault::new(FaultKind::Transient, what))));
        }
        if let Some(row) = next {
            rows.put(id, row);
        }
        Box::pin(ready(Ok(answer)))
    }
}

impl fmt::Debug for MemoryRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the records: they hold what callers were answered.
        f.debug_struct("MemoryRecords")
            .field("records", &self.len())
            .field("records_max", &self.records_max)
            .finish()
    }
}

impl RecordStore for MemoryRecords {
    fn peek(&self, id: RecordId, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Found, Fault>> {
        self.step(id, |row, now| (row::peek(row, fingerprint, now), None))
    }

    fn claim<'a>(
        &'a self,
        id: RecordId,
        record: &'a ClaimRecord,
    ) -> BoxFuture<'a, Result<Claimed, Fault>> {
        self.step(id, |row, now| row::claim(row, record, now))
    }

    fn complete<'a>(
        &'a self,
        id: RecordId,
        token: FencingToken,
        outcome: &'a Outcome,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Written, Fault>> {
        // A slice of a larger buffer would keep all of it alive for as long.
        let outcome = match outcome {
            Outcome::Payload(payload) => Outcome::Payload(Bytes::copy_from_slice(payload)),
            Outcome::WithoutPayload => Outcome::WithoutPayload,
        };
        self.step(id, |row, now| row::complete(row, token, &outcome, ttl, now))
    }

    fn abort(&self, id: RecordId, token: FencingToken) -> BoxFuture<'_, Result<Written, Fault>> {
        self.step(id, |row, now| row::abort(row, token, now))
    }
}
