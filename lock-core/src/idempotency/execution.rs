//! An execution in hand.

use std::fmt;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::error::CompleteError;
use super::id::RecordId;
use super::store::Outcome;
use crate::backend::{Fault, FaultKind};
use crate::engine::Lost;
use crate::guard::LockHandle;
use crate::token::FencingToken;

/// Where the keeper says what became of an end.
pub(super) type Reply = oneshot::Sender<Result<(), CompleteError>>;

/// How an execution ends, as it is told to its keeper; without a word it is aborted.
#[derive(Debug)]
pub(super) enum Finish {
    Complete(Outcome, Reply),
    Abort(Reply),
    Leave,
}

/// The right to run once. It is the holder of the lock on its record, whose lease is renewed as
/// long as this lives.
///
/// End it with [`complete`](Self::complete), [`tombstone`](Self::tombstone),
/// [`abort`](Self::abort) or [`leave`](Self::leave). Dropped without any of them (a panic, a cancelled task), it is aborted
/// in the background: the record is removed, the lock released, and a retry runs.
#[must_use = "an execution that is dropped is aborted"]
pub struct Execution {
    id: RecordId,
    handle: LockHandle,
    replaced: Option<FencingToken>,
    /// The keeper listens at the other end.
    finish: oneshot::Sender<Finish>,
}

impl Execution {
    pub(super) fn new(
        id: RecordId,
        handle: LockHandle,
        replaced: Option<FencingToken>,
        finish: oneshot::Sender<Finish>,
    ) -> Self {
        Self { id, handle, replaced, finish }
    }

    /// The record.
    #[must_use]
    pub fn id(&self) -> RecordId {
        self.id
    }

    /// The fencing token of this execution. Send it with every write: an execution that was
    /// stopped past its lease and goes on later is refused by it.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.handle.token()
    }

    /// A view of the lock under which this runs, which can be cloned and sent along.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        self.handle.clone()
    }

    /// Resolves when the lock is lost: another execution may begin from now on.
    pub fn lost(&self) -> Lost {
        self.handle.lost()
    }

    /// The token of the execution that this one took over from, if that one left no outcome: it
    /// may have done everything, a part, or nothing.
    #[must_use]
    pub fn replaced(&self) -> Option<FencingToken> {
        self.replaced
    }

    /// Keeps `payload` for all duplicates, then releases the lock.
    ///
    /// # Errors
    ///
    /// [`CompleteError::Stale`] when another execution has taken over, so that the payload was
    /// dropped; [`CompleteError::Unavailable`] when the store did not take it within 2 s.
    ///
    /// # Cancel safety
    ///
    /// The write is under way with the first poll and goes on when this future is dropped; only
    /// the answer is lost. Dropped before its first poll, it aborts.
    pub async fn complete(self, payload: Bytes) -> Result<(), CompleteError> {
        self.end(|reply| Finish::Complete(Outcome::Payload(payload), reply)).await
    }

    /// Keeps that this has happened, and nothing to replay, then releases the lock: no duplicate
    /// runs, and each is told so.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    ///
    /// As [`complete`](Self::complete).
    pub async fn tombstone(self) -> Result<(), CompleteError> {
        self.end(|reply| Finish::Complete(Outcome::Tombstone, reply)).await
    }

    /// Removes the record, as if nothing had been asked, then releases the lock: a retry runs.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete). Where the record stays, a retry finds an execution
    /// without an outcome.
    ///
    /// # Cancel safety
    ///
    /// Goes on when this future is dropped; only the answer is lost.
    pub async fn abort(self) -> Result<(), CompleteError> {
        self.end(Finish::Abort).await
    }

    /// Leaves the record in flight, as nobody knows how this ended, then releases the lock: the
    /// next is dealt with as [`OnUnknown`](super::OnUnknown) says. For an execution that was cut
    /// in the middle, as when its lock was [lost](Self::lost).
    pub fn leave(self) {
        // Without a keeper the record stays as it is too.
        drop(self.finish.send(Finish::Leave));
    }

    async fn end(self, how: impl FnOnce(Reply) -> Finish) -> Result<(), CompleteError> {
        let (reply, answer) = oneshot::channel();
        let gone = || CompleteError::Unavailable {
            id: self.id,
            fault: Fault::new(FaultKind::Transient, "the runtime that kept this execution is gone"),
        };
        match self.finish.send(how(reply)) {
            Ok(()) => answer.await.unwrap_or_else(|_| Err(gone())),
            Err(_) => Err(gone()),
        }
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("id", &self.id)
            .field("token", &self.token())
            .field("replaced", &self.replaced)
            .finish_non_exhaustive()
    }
}
