//! An execution in hand.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::error::CompleteError;
use super::repeat::STORE_WITHIN;
use super::single_flight::End;
#[cfg(feature = "sql")]
use super::written::{Destination, InDoubt, Verdict};
use crate::backend::io::Home;
use crate::backend::{Fault, FaultKind};
use crate::engine::{LockGuard, LockHandle, MultiLost};
use crate::ground::{Plus as _, clock};
use crate::records::{Outcome, RecordId};
use crate::token::FencingToken;

/// The sender with which the task says what became of an end: in time. Where that was no more than
/// that the store did not answer, it says it once more at the end.
pub(super) type Reply = mpsc::UnboundedSender<Result<(), CompleteError>>;

/// Answers once.
pub(super) fn tell(reply: &mut Option<Reply>, result: Result<(), CompleteError>) {
    if let Some(reply) = reply.take() {
        // The caller may be gone.
        drop(reply.send(result));
    }
}

/// How an execution ends, as it is told to its task; without a word it was dropped.
#[derive(Debug)]
pub(super) enum Finish {
    /// Under the old secret first, where there is one.
    Complete(Outcome, Option<Box<Execution>>, Reply),
    Abort(Reply),
    /// As without a word, and tells when it is done.
    GiveUp(Reply),
    Leave,
    /// Nobody was given it, so nothing has run.
    Unused,
    /// As unused; and this is the end of all who wait for it here.
    Answered(End),
    /// The outcome is on record already.
    #[cfg(feature = "sql")]
    Committed(Outcome, Reply),
    /// The outcome may be on record: that is to be found out.
    #[cfg(feature = "sql")]
    Settle(InDoubt, Verdict),
}

/// How much longer than the task takes at most its answer may be on its way.
const ANSWER_MARGIN: Duration = Duration::from_millis(500);

/// The answer of a task, in the time that it has at most. The task may be in another runtime, and that
/// one may be blocked; and the caller may have none.
pub(super) async fn in_answer_time<A>(answer: impl Future<Output = A>) -> Option<A> {
    in_time(STORE_WITHIN + ANSWER_MARGIN, answer).await
}

/// The answer, unless it takes longer than that, for a caller who may have no runtime.
pub(super) async fn in_time<A>(within: Duration, answer: impl Future<Output = A>) -> Option<A> {
    if clock::runtime().is_some() {
        return tokio::time::timeout(within, answer).await.ok();
    }
    match Home::shared() {
        Ok(home) => home.timeout_at(clock::now().plus(within), answer).await.ok(),
        // Without a thread for a timer there is nothing to wait by.
        Err(_) => Some(answer.await),
    }
}

/// The right to run once. It is the holder of the lock on its record, whose lease is renewed as
/// long as this lives.
///
/// End it with [`complete`](Self::complete), [`without_payload`](Self::complete_without_payload),
/// [`abort`](Self::abort) or [`leave`](Self::leave). Dropped without any of them (a panic, a
/// cancelled task), it is [given up](Self::give_up) in the background.
#[must_use = "an execution that is dropped is given up"]
pub struct Execution {
    id: RecordId,
    handle: LockHandle,
    /// That of the task as well, which lets go of it in the end. Where the runtime of that is gone, the
    /// lock is held until this is dropped.
    guard: Option<Arc<LockGuard>>,
    pub(super) replaced: Option<FencingToken>,
    /// The task listens at the other end.
    finish: Option<oneshot::Sender<Finish>>,
    is_handed_over: bool,
    /// The same execution under the secret that is being replaced.
    pub(super) old: Option<Box<Self>>,
    #[cfg(feature = "sql")]
    pub(super) place: Destination,
    /// The outcome that is written in a transaction of which nobody has said that it is committed.
    #[cfg(feature = "sql")]
    pub(super) written: Option<InDoubt>,
}

impl Execution {
    pub(super) fn new(
        id: RecordId,
        guard: Arc<LockGuard>,
        replaced: Option<FencingToken>,
        finish: oneshot::Sender<Finish>,
        #[cfg(feature = "sql")] place: Destination,
    ) -> Self {
        Self {
            id,
            handle: guard.handle(),
            guard: Some(guard),
            replaced,
            finish: Some(finish),
            is_handed_over: false,
            old: None,
            #[cfg(feature = "sql")]
            place,
            #[cfg(feature = "sql")]
            written: None,
        }
    }

    /// From now on it may have begun its work.
    pub(super) fn handed_over(mut self) -> Self {
        self.is_handed_over = true;
        self.old = self.old.take().map(|old| Box::new(old.handed_over()));
        self
    }

    /// The record.
    #[must_use]
    pub fn id(&self) -> RecordId {
        self.id
    }

    /// The fencing token of this execution. Send it with every write. By it, resources refuse an
    /// execution that was stopped past its lease and goes on later.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.handle.token()
    }

    /// A view of the lock under which this runs, which can be cloned and sent along.
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        self.handle.clone()
    }

    /// Resolves when the lock is lost: another execution may begin from now on. While a secret is
    /// [replaced](super::Idempotency::with_old_secret), it is that under either secret.
    pub fn lost(&self) -> MultiLost {
        let old = self.old.iter().map(|old| old.handle.lost());
        MultiLost::new(std::iter::once(self.handle.lost()).chain(old))
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
    /// [`CompleteError::Stale`] when another execution has taken over: the payload was dropped.
    /// [`CompleteError::Unavailable`] when the store did not take it within 2 s.
    ///
    /// # Cancel safety
    ///
    /// The write is under way with the first poll and goes on when this future is dropped; only
    /// the answer is lost. Dropped before its first poll, it drops the execution.
    pub async fn complete(self, payload: Bytes) -> Result<(), CompleteError> {
        self.end_with(Outcome::Payload(payload)).await
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
    pub async fn complete_without_payload(self) -> Result<(), CompleteError> {
        self.end_with(Outcome::WithoutPayload).await
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
        self.end_both(Finish::Abort).await
    }

    /// Ends an execution that may have been cut in the middle, or may have failed by itself: nobody
    /// can say. The record is removed, the lock released, and a retry runs. Where the lock was
    /// [lost](Self::lost), and under [`OnUnknown::Refuse`](super::OnUnknown), the record is left
    /// instead, as by [`leave`](Self::leave).
    ///
    /// # Errors
    ///
    /// As [`abort`](Self::abort).
    ///
    /// # Cancel safety
    ///
    /// As [`abort`](Self::abort).
    pub async fn give_up(self) -> Result<(), CompleteError> {
        self.end_both(Finish::GiveUp).await
    }

    /// Leaves the record in flight, as nobody knows how this ended, then releases the lock. The
    /// next request is dealt with as [`OnUnknown`](super::OnUnknown) says. For an execution that
    /// was cut in the middle, as when its lock was [lost](Self::lost).
    pub fn leave(mut self) {
        // Without a task the record stays as it is too.
        self.say(Finish::Leave);
        if let Some(old) = self.old.take() {
            old.leave();
        }
    }

    async fn end_with(mut self, outcome: Outcome) -> Result<(), CompleteError> {
        let old = self.old.take();
        self.end(|reply| Finish::Complete(outcome, old, reply)).await
    }

    /// Ends it under either secret, in no order.
    async fn end_both(mut self, how: fn(Reply) -> Finish) -> Result<(), CompleteError> {
        match self.old.take() {
            None => self.end(how).await,
            Some(old) => {
                // Both are told by the first poll.
                let (new, old) = tokio::join!(self.end(how), old.end(how));
                new.and(old)
            }
        }
    }

    /// Tells the task; `false` if it is gone.
    pub(super) fn say(&mut self, how: Finish) -> bool {
        // First: the end of the task is that of the lock.
        self.guard = None;
        self.finish.take().is_some_and(|finish| finish.send(how).is_ok())
    }

    pub(super) async fn end(self, how: impl FnOnce(Reply) -> Finish) -> Result<(), CompleteError> {
        self.ending(how).in_time().await
    }

    /// Tells the task.
    pub(super) fn ending(mut self, how: impl FnOnce(Reply) -> Finish) -> Ending {
        let (reply, words) = mpsc::unbounded_channel();
        // Without a task nobody has the other end, which shows when a word is waited for.
        self.say(how(reply));
        Ending { id: self.id, words }
    }

    /// Writes the outcome under a secret that is being replaced.
    pub(super) fn ending_with(mut self, outcome: Outcome) -> Ending {
        let old = self.old.take();
        self.ending(|reply| Finish::Complete(outcome, old, reply))
    }
}

/// The end of an execution, which goes on whatever becomes of this.
#[derive(Debug)]
pub(super) struct Ending {
    id: RecordId,
    words: mpsc::UnboundedReceiver<Result<(), CompleteError>>,
}

impl Ending {
    /// The result, as far as it is known in time.
    pub(super) async fn in_time(&mut self) -> Result<(), CompleteError> {
        let word = self.words.recv();
        in_answer_time(word)
            .await
            .unwrap_or_else(|| {
                Some(Err(self.unavailable("the runtime that keeps this execution does not answer")))
            })
            .unwrap_or_else(
                || Err(self.unavailable("the runtime that kept this execution is gone")),
            )
    }

    /// The result in the end; `None` where there was no other word.
    pub(super) async fn at_last(mut self) -> Option<Result<(), CompleteError>> {
        let mut last = None;
        while let Some(word) = self.words.recv().await {
            last = Some(word);
        }
        last
    }

    fn unavailable(&self, what: &'static str) -> CompleteError {
        CompleteError::Unavailable { id: self.id, fault: Fault::new(FaultKind::Transient, what) }
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        if !self.is_handed_over {
            self.say(Finish::Unused);
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
