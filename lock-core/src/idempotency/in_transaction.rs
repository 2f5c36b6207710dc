//! Executions that are completed in a transaction of the database that keeps their records.
//!
//! An effect and its record are two writes, and a process may die between them. In one transaction
//! they are one: both are there, or neither is. The commit decides. The task is told of it, or finds
//! out.

use std::io;
use std::time::Duration;

use sqlx::Transaction;
use tokio::sync::oneshot;

use super::error::CompleteError;
use super::execution::{Execution, Finish, in_answer_time, in_time};
use super::repeat::{Repeat, STORE_WITHIN, TRY_WITHIN};
use super::single_flight::End;
use super::task::Task;
use super::transaction_error::{CommitError, CompleteInError};
use super::written::{InDoubt, Verdict};
use crate::backend::{Fault, FaultKind};
use crate::ground::{Plus as _, clock};
use crate::records::{BoxFuture, Found, Outcome, Written};
use crate::sql::{InTransactionError, RecordDialect, complete_in};

/// How much sooner than the record's life is over its absence says nothing any more: the database
/// counts in milliseconds, by another clock.
const LIFE_MARGIN: Duration = Duration::from_millis(20);

impl Execution {
    /// Keeps `outcome` for all duplicates in a transaction of the database that keeps the records:
    /// see [`SqlRecords`](crate::sql::SqlRecords). What the transaction has written and the record
    /// are both there after its commit, or neither is, also where the process dies in the middle. So the
    /// effect happens exactly once, as far as it is in that database.
    ///
    /// Say [`committed`](Self::committed) after the commit, or let [`commit`](Self::commit) do all of
    /// it. Where nothing is said, as in a panic, the database is asked what became of the
    /// transaction.
    ///
    /// It may be called again, in another transaction, once this one is rolled back.
    ///
    /// Let it be the last statement of the transaction. PostgreSQL rolls back a transaction in which
    /// a statement has failed, and sqlx tells its `commit` as one that was made all the same. Here
    /// that is an error.
    ///
    /// While a secret is [replaced](super::Idempotency::with_old_secret), both records are completed.
    ///
    /// # Errors
    ///
    /// [`CompleteInError::Stale`] when another execution has taken over,
    /// [`CompleteInError::OtherStore`] when the records are elsewhere. Whichever it is, the
    /// transaction is to be rolled back, as by dropping it.
    ///
    /// # Cancel safety
    ///
    /// The record may have been written in the transaction, or not: roll it back.
    pub async fn complete_in<D: RecordDialect>(
        &mut self,
        tx: &mut Transaction<'_, D>,
        outcome: impl Into<Outcome>,
    ) -> Result<(), CompleteInError> {
        let outcome = outcome.into();
        self.written = None;
        // From before it is written, so that it is not taken to live for longer than it does.
        let lives_until = clock::now().plus(self.place.ttl.saturating_sub(LIFE_MARGIN));
        let table = self.place.in_database::<D>()?;
        let old = self.old.as_deref().map(|old| (old.id(), old.token()));
        for (id, token) in old.into_iter().chain([(self.id(), self.token())]) {
            let completed = complete_in(tx, &table, (id, token), &outcome, self.place.ttl).await;
            match completed.map_err(|source| CompleteInError::Database { id, source })? {
                Written::Yes => {}
                Written::Stale => return Err(CompleteInError::Stale { id, token }),
            }
        }
        self.written = Some(InDoubt { outcome, lives_until });
        Ok(())
    }

    /// Keeps `outcome` in the transaction, commits it, and releases the lock: all of
    /// [`complete_in`](Self::complete_in), the commit and [`committed`](Self::committed).
    ///
    /// The record is written within 5 s, or the transaction is rolled back. A commit that is not
    /// answered within 5 s is looked up by the record, within 2 s.
    ///
    /// `tx` is one of a pool. One that is begun on a connection may be a savepoint in another
    /// transaction, which would decide instead; for that there are
    /// [`complete_in`](Self::complete_in) and [`committed`](Self::committed).
    ///
    /// ```compile_fail,E0597
    /// # use lock_core::idempotency::Execution;
    /// # async fn doc(pool: sqlx::SqlitePool, execution: Execution) -> Result<(), Box<dyn std::error::Error>> {
    /// use sqlx::Acquire as _;
    ///
    /// let mut tx = pool.begin().await?;
    /// let savepoint = tx.begin().await?;
    /// execution.commit(savepoint, bytes::Bytes::from("paid")).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`CommitError::Complete`] and [`CommitError::NotCommitted`]: neither the effect nor the record
    /// is there. A retry runs, or is given the outcome of whoever has taken over.
    /// [`CommitError::Unknown`]: both are there or neither is.
    ///
    /// # Cancel safety
    ///
    /// The transaction may be committed with its record, or not. The database is asked in the
    /// background, and the lock is released then.
    pub async fn commit<D: RecordDialect>(
        mut self,
        mut tx: Transaction<'static, D>,
        outcome: impl Into<Outcome>,
    ) -> Result<(), CommitError> {
        let completed = in_time(TRY_WITHIN, self.complete_in(&mut tx, outcome)).await;
        if let Err(error) = completed.unwrap_or_else(|| Err(self.late())) {
            // Nothing has happened: a retry is not told that nobody knows.
            drop(tx);
            drop(self.abort().await);
            return Err(error.into());
        }
        let committed = in_time(TRY_WITHIN, tx.commit()).await;
        let Err(source) = committed.unwrap_or_else(|| Err(no_answer())) else {
            // The task may not hear it, which changes nothing of what is committed.
            drop(self.committed().await);
            return Ok(());
        };
        let id = self.id();
        match self.settle().await {
            Some(true) => Ok(()),
            Some(false) => Err(CommitError::NotCommitted { id, source }),
            None => Err(CommitError::Unknown { id, source }),
        }
    }

    fn late(&self) -> CompleteInError {
        let source = InTransactionError::Database { source: no_answer() };
        CompleteInError::Database { id: self.id(), source }
    }

    /// Says that the transaction of [`complete_in`](Self::complete_in) is committed: duplicates that
    /// wait in this process are given the outcome, and the lock is released. An execution that was
    /// not completed in a transaction is [given up](Self::give_up).
    ///
    /// Do not say so of a transaction that was rolled back, or may have been: drop the execution
    /// instead, and the database is asked.
    ///
    /// # Errors
    ///
    /// [`CompleteError::Unavailable`] when the runtime that kept the execution is gone. The outcome
    /// is kept all the same.
    ///
    /// # Cancel safety
    ///
    /// As [`complete`](Self::complete).
    pub async fn committed(mut self) -> Result<(), CompleteError> {
        let Some(InDoubt { outcome, .. }) = self.written.take() else {
            return self.give_up().await;
        };
        if let Some(old) = self.old.take() {
            // Its end tells nothing more than that of this one.
            drop(old.ending(|reply| Finish::Committed(outcome.clone(), reply)));
        }
        self.end(|reply| Finish::Committed(outcome, reply)).await
    }

    /// Asks whether the transaction was committed, and takes the record back if it was not; `None`
    /// where the store does not say so in time.
    async fn settle(mut self) -> Option<bool> {
        let InDoubt { outcome, lives_until } = self.written.take()?;
        if let Some(mut old) = self.old.take() {
            let (verdict, _) = oneshot::channel();
            let outcome = outcome.clone();
            old.say(Finish::Settle(InDoubt { outcome, lives_until }, verdict));
        }
        let (verdict, answer) = oneshot::channel();
        if !self.say(Finish::Settle(InDoubt { outcome, lives_until }, verdict)) {
            return None;
        }
        in_answer_time(answer).await?.ok()?.ok()
    }
}

fn no_answer() -> sqlx::Error {
    let what = format!("the database did not answer within {TRY_WITHIN:?}");
    sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, what))
}

impl Task {
    /// The outcome is on record, as its execution says.
    pub(super) fn committed(&self, outcome: &Outcome) {
        self.shared.counters.completed.add();
        self.watched.ended("completed");
        self.lead.end(End::of(outcome));
    }

    /// Finds out whether a transaction was committed that completed the record. A record that it has
    /// left in flight is removed, as nothing has happened.
    ///
    /// The transaction may be open still. Then its record is locked, and the store does not answer
    /// before it has ended.
    pub(super) async fn settle(&self, in_doubt: &InDoubt, verdict: Verdict) {
        let (id, token) = (self.id, self.token());
        let mut verdict = Some(verdict);
        let mut tell = |answer| {
            if let Some(verdict) = verdict.take() {
                // The caller may be gone.
                drop(verdict.send(answer));
            }
        };
        let committed = self.find_out(in_doubt, &mut tell).await;
        match &committed {
            Ok(true) => self.committed(&in_doubt.outcome),
            Ok(false) => {
                self.shared.counters.aborted.add();
                self.watched.ended("aborted");
            }
            Err(fault) => {
                self.watched.ended("unknown");
                tracing::warn!(%id, %token, %fault, "it is not known whether the transaction of an idempotent execution was committed");
            }
        }
        tell(committed);
    }

    async fn find_out(
        &self,
        in_doubt: &InDoubt,
        late: &mut (dyn FnMut(Result<bool, Fault>) + Send),
    ) -> Result<bool, Fault> {
        let (id, token, InDoubt { outcome, lives_until }) = (self.id, self.token(), in_doubt);
        let abort = || self.store().abort(id, token);
        let peek = || self.store().peek(id, self.fingerprint);
        let complete = || -> BoxFuture<'_, _> {
            self.store().complete(id, token, outcome, self.options.record_ttl)
        };
        loop {
            let told = |fault| late(Err(fault));
            if Repeat::new().ask_beyond(abort, || true, told).await? == Written::Yes {
                break;
            }
            match Repeat::new().ask(STORE_WITHIN, peek, || true).await? {
                // It stays so, be it ours or another one's: the former is acknowledged once more.
                // An effect in flight would be completed by the same word, and has not happened.
                Found::Done(_) | Found::WithoutPayload => {
                    let written = Repeat::new().ask(STORE_WITHIN, complete, || true).await?;
                    if written == Written::Yes {
                        return Ok(true);
                    }
                    break;
                }
                // Another one has taken over, and was aborted: it is this one's again.
                Found::InFlight { token: ours, .. } if ours == token => {}
                Found::InFlight { .. } | Found::Absent | Found::Mismatch => break,
            }
        }
        if clock::now() < *lives_until {
            return Ok(false);
        }
        let what = "the life of its record is over, so it is not to be found whether there was one";
        Err(Fault::new(FaultKind::Transient, what.to_owned()))
    }
}
