//! Records in this process: for tests, for services that run as one process, and as the model
//! that the other stores are measured against.

mod records;

use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use self::records::{Record, Records, Replaced, State};
use super::fingerprint::Fingerprint;
use super::id::RecordId;
use super::store::OnUnknown;
use super::store::{BoxFuture, ClaimRecord, Claimed, Found, Outcome, RecordStore, Written};
use crate::backend::{Fault, FaultKind};
use crate::ground::clock;
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
    records: Arc<Mutex<Records>>,
    records_max: usize,
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
        Self { records: Arc::default(), records_max: RECORDS_MAX }
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
        self.now().0.by_id.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The records that live now.
    fn now(&self) -> (MutexGuard<'_, Records>, Instant) {
        let now = clock::now();
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.expire(now);
        (records, now)
    }

    fn claim_now(&self, id: RecordId, claim: &ClaimRecord) -> Result<Claimed, Fault> {
        let (mut records, now) = self.now();
        let mut replaced = None;
        let mark = records.mark(id).filter(|mark| *mark >= claim.token);
        match records.by_id.get(&id) {
            None if let Some(token) = mark => {
                return Ok(Claimed::InFlight { age: Duration::ZERO, token });
            }
            None if records.by_id.len() >= self.records_max => return Err(full(self.records_max)),
            None => {}
            Some(record) if record.fingerprint != claim.fingerprint => {
                return Ok(Claimed::Mismatch);
            }
            Some(Record { state: State::Completed(Outcome::Payload(payload)), .. }) => {
                return Ok(Claimed::Done(payload.clone()));
            }
            Some(Record { state: State::Completed(Outcome::WithoutPayload), .. }) => {
                return Ok(Claimed::WithoutPayload);
            }
            Some(
                record @ Record {
                    state: State::InFlight { since, replaced: before }, token, ..
                },
            ) => {
                let age = now.saturating_duration_since(*since);
                if *token > claim.token {
                    return Ok(Claimed::InFlight { age, token: *token });
                }
                if *token == claim.token {
                    let (since, replaced) = (*since, *before);
                    records.put(id, claim, State::InFlight { since, replaced }, now);
                    let replaced = replaced.map(|replaced| replaced.token);
                    return Ok(Claimed::Claimed { replaced });
                }
                if let Some(token) = mark {
                    return Ok(Claimed::InFlight { age, token });
                }
                if claim.on_unknown == OnUnknown::Refuse {
                    return Ok(Claimed::Unknown { age });
                }
                let first = before.and_then(|before| before.first.or(Some(before.token)));
                let (token, since, until) = (*token, *since, record.until);
                replaced = Some(Replaced { token, first, since, until });
            }
        }
        records.put(id, claim, State::InFlight { since: now, replaced }, now);
        Ok(Claimed::Claimed { replaced: replaced.map(|replaced| replaced.token) })
    }

    fn complete_now(
        &self,
        id: RecordId,
        token: FencingToken,
        outcome: &Outcome,
        ttl: Duration,
    ) -> Written {
        let (mut records, now) = self.now();
        let Some(record) = records.by_id.get(&id).filter(|record| record.token == token) else {
            return Written::Stale;
        };
        match &record.state {
            State::Completed(before) if before == outcome => Written::Yes,
            State::Completed(_) => Written::Stale,
            State::InFlight { .. } => {
                let (fingerprint, on_unknown) = (record.fingerprint, OnUnknown::default());
                let claim = ClaimRecord { fingerprint, token, ttl, on_unknown };
                // A slice of a larger buffer would keep all of it alive for as long.
                let outcome = match outcome {
                    Outcome::Payload(payload) => Outcome::Payload(Bytes::copy_from_slice(payload)),
                    Outcome::WithoutPayload => Outcome::WithoutPayload,
                };
                records.put(id, &claim, State::Completed(outcome), now);
                Written::Yes
            }
        }
    }

    fn abort_now(&self, id: RecordId, token: FencingToken) -> Written {
        let (mut records, now) = self.now();
        match records.by_id.get(&id) {
            None => {}
            Some(Record {
                token: other,
                state: State::InFlight { replaced, .. },
                fingerprint,
                ..
            }) if *other == token => {
                let (fingerprint, replaced) = (*fingerprint, *replaced);
                records.remove(id);
                if let Some(replaced) = replaced.filter(|replaced| replaced.until > now) {
                    records.put_back(id, fingerprint, replaced, now);
                }
            }
            Some(Record { token: other, state: State::InFlight { .. }, .. }) if *other < token => {}
            Some(_) => return Written::Stale,
        }
        records.set_mark(id, token, now);
        Written::Yes
    }
}

fn full(records_max: usize) -> Fault {
    let what = format!("there are {records_max} records in memory, and no room for another");
    Fault::new(FaultKind::Transient, what)
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
        let (records, now) = self.now();
        let found = match records.by_id.get(&id) {
            None => Found::Absent,
            Some(record) if record.fingerprint != fingerprint => Found::Mismatch,
            Some(record) => match &record.state {
                State::InFlight { since, .. } => {
                    let age = now.saturating_duration_since(*since);
                    Found::InFlight { age, token: record.token }
                }
                State::Completed(Outcome::Payload(payload)) => Found::Done(payload.clone()),
                State::Completed(Outcome::WithoutPayload) => Found::WithoutPayload,
            },
        };
        Box::pin(ready(Ok(found)))
    }

    fn claim<'a>(
        &'a self,
        id: RecordId,
        record: &'a ClaimRecord,
    ) -> BoxFuture<'a, Result<Claimed, Fault>> {
        Box::pin(ready(self.claim_now(id, record)))
    }

    fn complete<'a>(
        &'a self,
        id: RecordId,
        token: FencingToken,
        outcome: &'a Outcome,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Written, Fault>> {
        Box::pin(ready(Ok(self.complete_now(id, token, outcome, ttl))))
    }

    fn abort(&self, id: RecordId, token: FencingToken) -> BoxFuture<'_, Result<Written, Fault>> {
        Box::pin(ready(Ok(self.abort_now(id, token))))
    }
}
