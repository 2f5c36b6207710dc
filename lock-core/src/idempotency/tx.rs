//! A transaction that is handed to a handler, and ends with its execution.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, OnceLock};

use scopeguard::{ScopeGuard, guard};
use sqlx::{Pool, Transaction};

use super::execution::{Execution, in_answer_time};
use super::transaction_error::{CommitError, TxError};
use crate::ground::lock;
use crate::records::{BoxFuture, Outcome};
use crate::sql::RecordDialect;

/// A transaction that a handler works in, and that is committed with the record of its execution:
/// by an `IdempotencyLayer` around it, or by `#[idempotent(tx = ..)]`.
///
/// It is begun by the first [`open`](Self::open), behind the claim of the record. It ends once the
/// handler has returned, so the handler can only [roll it back](Self::roll_back):
///
/// | the handler | the transaction | the record |
/// |---|---|---|
/// | returned what is kept | is committed with the record | is completed in it |
/// | returned an error, kept or not | is rolled back | as without a transaction |
/// | panicked, was cut, lost its lock | is rolled back, whatever was answered for it | as without a transaction, or left without an outcome |
///
/// A database keeps locks for as long as a transaction is open, and SQLite lets nobody else write. So
/// do slow work before you open it, above all requests to others.
///
/// In PostgreSQL a statement that fails ends the transaction in effect. A handler that goes on
/// without it, and returns what is kept, is not committed: it works in a savepoint (sqlx's `begin` on
/// the transaction), or returns the error.
///
/// An execution has one transaction. Where several arguments or extractors are a `Tx`, one of them
/// can be opened.
pub struct Tx<D: RecordDialect> {
    pool: Pool<D>,
    open: Option<Transaction<'static, D>>,
    seat: OnceLock<TxSeat>,
}

impl<D: RecordDialect> Tx<D> {
    /// One that begins in this pool, which is to be one of the database that keeps the records.
    #[must_use]
    pub fn of(pool: &Pool<D>) -> Self {
        Self { pool: pool.clone(), open: None, seat: OnceLock::new() }
    }

    /// The transaction, which the first call begins as one that writes.
    ///
    /// # Errors
    ///
    /// [`TxError::Unseated`] where nobody would commit it, [`TxError::Second`] where the execution
    /// has another one already, and [`TxError::Database`] where the database or the pool has none.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when it is dropped.
    pub async fn open(&mut self) -> Result<&mut Transaction<'static, D>, TxError> {
        let seat = self.seat.get().ok_or(TxError::Unseated)?;
        match &mut self.open {
            Some(tx) => Ok(tx),
            closed => {
                if !seat.reserve() {
                    return Err(TxError::Second);
                }
                let reserved = guard(seat, |seat| drop(seat.set(State::None)));
                let tx = D::begin(&self.pool).await?;
                ScopeGuard::into_inner(reserved);
                Ok(closed.insert(tx))
            }
        }
    }

    /// Rolls back what was written so far. The execution goes on, and what it returns is kept as
    /// without a transaction, unless another one is opened.
    ///
    /// # Errors
    ///
    /// The error of the database. The transaction is rolled back all the same, with its connection.
    ///
    /// # Cancel safety
    ///
    /// It is rolled back in the background when this is dropped.
    pub async fn roll_back(&mut self) -> Result<(), sqlx::Error> {
        let Some(tx) = self.open.take() else { return Ok(()) };
        if let Some(seat) = self.seat.get() {
            drop(seat.set(State::None));
        }
        tx.rollback().await
    }

    /// Takes a seat, from which whoever has the execution ends this. `false` where it has one
    /// already, which is that of another execution and stays.
    pub fn take_seat(&self, seat: TxSeat) -> bool {
        self.seat.set(seat).is_ok()
    }
}

impl<D: RecordDialect> Drop for Tx<D> {
    fn drop(&mut self) {
        if let (Some(tx), Some(seat)) = (self.open.take(), self.seat.get()) {
            seat.put(Box::new(tx));
        }
    }
}

impl<D: RecordDialect> fmt::Debug for Tx<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is_open, is_seated) = (self.open.is_some(), self.seat.get().is_some());
        f.debug_struct("Tx")
            .field("is_open", &is_open)
            .field("is_seated", &is_seated)
            .finish_non_exhaustive()
    }
}

/// The seat in which the transaction of a [`Tx`] waits for its end once the handler has let go of
/// it. For whoever runs a handler under an execution.
#[derive(Clone, Default)]
pub struct TxSeat(Arc<Mutex<State>>);

#[derive(Default)]
enum State {
    /// ## None => Out
    #[default]
    None,
    /// ## Out => (None | Back)
    Out,
    /// ## Back => None
    Back(Box<dyn Ends>),
}

impl TxSeat {
    /// One that is empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a transaction was opened that has not ended.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        !matches!(&*lock(&self.0), State::None)
    }

    /// Keeps the outcome of an execution whose handler is gone: in its transaction, which is
    /// committed, or by itself where there is none.
    ///
    /// # Errors
    ///
    /// As [`Execution::commit`]; [`CommitError::Kept`] where something that the handler has left
    /// behind has the transaction still. [`CommitError::Record`] where there was no transaction.
    ///
    /// # Cancel safety
    ///
    /// As [`Execution::commit`].
    pub async fn complete(
        &self,
        execution: Execution,
        outcome: Outcome,
    ) -> Result<(), CommitError> {
        // Not under the mutex: the commit awaits.
        let before = self.set(State::None);
        match before {
            State::Back(tx) => tx.commit(execution, outcome).await,
            State::None => Ok(match outcome {
                Outcome::Payload(payload) => execution.complete(payload).await,
                Outcome::WithoutPayload => execution.complete_without_payload().await,
            }?),
            State::Out => {
                // It is rolled back when it is dropped: nothing has happened.
                let id = execution.id();
                tracing::error!(%id, "a handler has returned, and has left its transaction to something that keeps it");
                drop(execution.abort().await);
                Err(CommitError::Kept { id })
            }
        }
    }

    /// Rolls back what the handler has written, and waits for it, for 2.5 s at most. From then on that
    /// goes on in the background.
    ///
    /// # Cancel safety
    ///
    /// It is rolled back in the background when this is dropped.
    pub async fn roll_back(&self) {
        let before = self.set(State::None);
        if let State::Back(tx) = before {
            tx.roll_back().await;
        }
    }

    /// Takes it for a transaction that is about to begin, unless there is another: the execution can
    /// be completed in one alone, and what the other has written would be lost.
    fn reserve(&self) -> bool {
        let mut state = lock(&self.0);
        let is_free = matches!(&*state, State::None);
        if is_free {
            *state = State::Out;
        }
        is_free
    }

    fn set(&self, state: State) -> State {
        mem::replace(&mut *lock(&self.0), state)
    }

    /// Takes a transaction that a handler lets go of. One that comes too late is rolled back.
    fn put(&self, tx: Box<dyn Ends>) {
        let mut state = lock(&self.0);
        let late = match &*state {
            State::Out => {
                *state = State::Back(tx);
                None
            }
            State::None | State::Back(_) => Some(tx),
        };
        drop(state);
        // Not under the mutex: the drop of a transaction asks its connection.
        drop(late);
    }
}

impl fmt::Debug for TxSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*lock(&self.0) {
            State::None => "None",
            State::Out => "Out",
            State::Back(_) => "Back",
        };
        f.debug_tuple("TxSeat").field(&state).finish()
    }
}

/// A transaction of any database.
trait Ends: Send {
    fn commit(
        self: Box<Self>,
        execution: Execution,
        outcome: Outcome,
    ) -> BoxFuture<'static, Result<(), CommitError>>;

    fn roll_back(self: Box<Self>) -> BoxFuture<'static, ()>;
}

impl<D: RecordDialect> Ends for Transaction<'static, D> {
    fn commit(
        self: Box<Self>,
        execution: Execution,
        outcome: Outcome,
    ) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(execution.commit(*self, outcome))
    }

    fn roll_back(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            match in_answer_time(self.rollback()).await {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    tracing::debug!(%error, "a transaction was rolled back with its connection");
                }
                None => tracing::debug!("a transaction is rolled back in the background"),
            }
        })
    }
}
