//! The seam between the engine and what remembers.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::fingerprint::Fingerprint;
use super::id::RecordId;
use super::table::RecordTable;
pub use crate::backend::BoxFuture;
use crate::backend::Fault;
use crate::token::FencingToken;

/// The shortest life of a completed record: 1 s.
pub const RECORD_TTL_MIN: Duration = Duration::from_secs(1);

/// The longest life of a record: 366 days.
pub const RECORD_TTL_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The way to go on where an earlier execution claimed the record and left no outcome. Its process
/// died, was cut off or stopped, so it may have done everything, a part, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnUnknown {
    /// Run again, under a greater token, which keeps the writes of the earlier one out where the
    /// resource checks tokens.
    #[default]
    Reexecute,
    /// Answer [`Begun::Unknown`](crate::idempotency::Begun::Unknown) until the record's life has
    /// ended.
    ///
    /// An [`Execution`](crate::idempotency::Execution) that is dropped without a word, as when its
    /// task is cancelled or panics, is unknown too: it was cut anywhere. Say
    /// [`abort`](crate::idempotency::Execution::abort) where a retry may run.
    Refuse,
}

/// How long a store remembers that an execution was aborted: 5 min. No request is on its way for
/// longer.
pub(crate) const MARK_TTL: Duration = Duration::from_secs(5 * 60);

/// A store that remembers the outcome of an execution by its [`RecordId`].
///
/// A record is absent, in flight under a fencing token, or completed, with a payload or without.
/// Each verb is atomic, and bounds its own I/O in time (2 s is customary). It may be repeated when
/// its answer was lost: the repetition gives the answer that the first gave. Every write sets a
/// time to live. A value that is no record of this version, is truncated, or is of another kind, is
/// a fault of the kind [`ForeignValue`](crate::backend::FaultKind::ForeignValue). It is never
/// overwritten.
///
/// Verbs may arrive late and out of order: one whose caller has given up may take effect after the
/// next one of the same execution. Tokens make that harmless but for one case: a claim that arrives
/// after its abort would put a dead execution on record. So an abort leaves a mark for 5 min, which
/// only claims see.
///
/// The conformance suite in `test_util::records` checks all of it.
pub trait RecordStore: Send + Sync + Debug + 'static {
    /// The state of a record, as a request with this fingerprint sees it. Only reads.
    fn peek(&self, id: RecordId, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Found, Fault>>;

    /// Claims an execution, or says why not. Called by the holder of the lock on this id, under
    /// the token of that hold.
    ///
    /// - Absent: the record is in flight under this token from now on.
    /// - In flight under this very token: as it was answered before; the time to live begins anew.
    /// - In flight under a smaller token: its holder is gone and did not say how it ended, so
    ///   [`ClaimRecord::on_unknown`] decides.
    /// - In flight under a greater token: the caller is the one that is gone.
    /// - Aborted under this token or a greater one within 5 min: [`Claimed::InFlight`] as well.
    fn claim<'a>(
        &'a self,
        id: RecordId,
        record: &'a ClaimRecord,
    ) -> BoxFuture<'a, Result<Claimed, Fault>>;

    /// Completes the execution that is in flight under this very token, and keeps the outcome for
    /// `ttl`. [`Written::Yes`] too where this token has left this very outcome before.
    fn complete<'a>(
        &'a self,
        id: RecordId,
        token: FencingToken,
        outcome: &'a Outcome,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Written, Fault>>;

    /// Removes the record that is in flight under this very token, and leaves a mark. If that one
    /// took over from an execution without an outcome, the record is that one's again, with what is
    /// left of its life. [`Written::Yes`] too where there is none at all, or one in flight under a
    /// smaller token, as after the first of two aborts. [`Written::Stale`] where it is in flight
    /// under a greater token, or completed.
    fn abort(&self, id: RecordId, token: FencingToken) -> BoxFuture<'_, Result<Written, Fault>>;

    /// The table of a database that the records are kept in, if it is one in which an execution can
    /// be [completed](crate::idempotency::Execution::complete_in) in a transaction (default: none).
    /// A store around another one passes it on.
    fn table(&self) -> Option<&RecordTable> {
        None
    }
}

/// The answer of [`RecordStore::peek`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// Nothing.
    Absent,
    /// An execution that has not ended, or whose process is gone: the lock tells which.
    InFlight {
        /// The time since it was claimed, by the store's clock.
        age: Duration,
        /// Its token.
        token: FencingToken,
    },
    /// The payload of a completed execution.
    Done(Bytes),
    /// Completed, without a payload to replay.
    WithoutPayload,
    /// A record of another fingerprint.
    Mismatch,
}

/// The record that [`RecordStore::claim`] writes, and its terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimRecord {
    /// The fingerprint of the request.
    pub fingerprint: Fingerprint,
    /// The token of the hold under which it is asked.
    pub token: FencingToken,
    /// The time that the record lives without a completion.
    pub ttl: Duration,
    /// The way to go on where an earlier execution left no outcome.
    pub on_unknown: OnUnknown,
}

/// The answer of [`RecordStore::claim`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Claimed {
    /// The record is in flight under the caller's token.
    Claimed {
        /// The token of an earlier execution that left no outcome, where it took over from one.
        replaced: Option<FencingToken>,
    },
    /// In flight under a greater token, or aborted under one that is not smaller.
    InFlight {
        /// The time since it was claimed, by the store's clock.
        age: Duration,
        /// Its token.
        token: FencingToken,
    },
    /// The payload of a completed execution.
    Done(Bytes),
    /// Completed, without a payload to replay.
    WithoutPayload,
    /// A record of another fingerprint.
    Mismatch,
    /// An earlier execution left no outcome, and [`OnUnknown::Refuse`] was asked for.
    Unknown {
        /// The time since it was claimed, by the store's clock.
        age: Duration,
    },
}

/// The outcome of an execution.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It ended with this payload, to be replayed.
    Payload(Bytes),
    /// It ended with something that is not kept, and that must not happen again all the same.
    WithoutPayload,
}

impl From<Bytes> for Outcome {
    fn from(payload: Bytes) -> Self {
        Self::Payload(payload)
    }
}

/// Whether a write found its record in flight under its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It did.
    Yes,
    /// Another execution has taken over, or the record is gone; nothing was written.
    Stale,
}

impl<S: RecordStore + ?Sized> RecordStore for Arc<S> {
    fn peek(&self, id: RecordId, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Found, Fault>> {
        (**self).peek(id, fingerprint)
    }

    fn claim<'a>(
        &'a self,
        id: RecordId,
        record: &'a ClaimRecord,
    ) -> BoxFuture<'a, Result<Claimed, Fault>> {
        (**self).claim(id, record)
    }

    fn complete<'a>(
        &'a self,
        id: RecordId,
        token: FencingToken,
        outcome: &'a Outcome,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Written, Fault>> {
        (**self).complete(id, token, outcome, ttl)
    }

    fn abort(&self, id: RecordId, token: FencingToken) -> BoxFuture<'_, Result<Written, Fault>> {
        (**self).abort(id, token)
    }

    fn table(&self) -> Option<&RecordTable> {
        (**self).table()
    }
}
