//! An execution whose handler runs, and the transaction that the handler may work in.

use bytes::Bytes;
use http::request::Parts;
use lock_core::futures::MultiLost;
#[cfg(feature = "sql")]
use lock_core::idempotency::{CommitError, Outcome, TxSeat};
use lock_core::idempotency::{CompleteError, Execution};
use lock_core::{FencingToken, LockHandle};

use super::outcome::{Got, Left, Said};

/// An execution whose handler runs.
pub(super) struct Running {
    execution: Execution,
    /// Behind the execution, which is dropped first: it does not wait for what is rolled back.
    #[cfg(feature = "sql")]
    seat: TxSeat,
}

impl Running {
    /// Puts what a handler may ask for into its request.
    pub(super) fn new(execution: Execution, head: &mut Parts) -> Self {
        head.extensions.insert(execution.handle());
        head.extensions.insert(execution.token());
        #[cfg(feature = "sql")]
        let seat = {
            let seat = TxSeat::new();
            head.extensions.insert(seat.clone());
            seat
        };
        Self {
            execution,
            #[cfg(feature = "sql")]
            seat,
        }
    }

    pub(super) fn lost(&self) -> MultiLost {
        self.execution.lost()
    }

    /// Whether the handler has opened a transaction, which is not to stay open for long.
    pub(super) fn has_transaction(&self) -> bool {
        #[cfg(feature = "sql")]
        {
            self.seat.is_taken()
        }
        #[cfg(not(feature = "sql"))]
        {
            false
        }
    }

    /// Keeps a response.
    pub(super) async fn complete(self, record: Bytes, said: Said) -> Left {
        self.end(Some(record), said).await
    }

    /// Keeps that there was one.
    pub(super) async fn complete_without_payload(self, said: Said) -> Left {
        self.end(None, said).await
    }

    #[cfg(feature = "sql")]
    async fn end(self, record: Option<Bytes>, said: Said) -> Left {
        if said == Said::Failed {
            self.seat.roll_back().await;
            return Self::end_alone(self.execution, record).await;
        }
        let outcome = record.map_or(Outcome::WithoutPayload, Outcome::Payload);
        match self.seat.complete(self.execution, outcome).await {
            Ok(()) => Left::Written,
            Err(CommitError::Record(error)) => Left::of(&error),
            Err(error) => {
                tracing::warn!(%error, "the transaction of a handler was not committed");
                if error.is_stale() {
                    Left::Stale
                } else if error.is_unknown() {
                    Left::Unknown
                } else {
                    Left::Undone
                }
            }
        }
    }

    #[cfg(not(feature = "sql"))]
    async fn end(self, record: Option<Bytes>, _: Said) -> Left {
        Self::end_alone(self.execution, record).await
    }

    async fn end_alone(execution: Execution, record: Option<Bytes>) -> Left {
        let ended = match record {
            Some(record) => execution.complete(record).await,
            None => execution.complete_without_payload().await,
        };
        ended.map_or_else(|error: CompleteError| Left::of(&error), |()| Left::Written)
    }

    /// Ends an execution of which nothing is kept. Waits for it, so that a retry that comes after
    /// the answer runs at once.
    pub(super) async fn let_go(self, got: Got) {
        #[cfg(feature = "sql")]
        self.seat.roll_back().await;
        // Where the record stays, the retry finds an execution without an outcome.
        match got {
            Got::Answered => drop(self.execution.abort().await),
            Got::Unsaid => drop(self.execution.give_up().await),
            Got::InPart => self.execution.leave(),
        }
    }

    /// As [`Got::InPart`], without waiting.
    pub(super) fn leave(self) {
        self.execution.leave();
    }
}

/// A layer around this one has left its own, which says nothing about this key: the handler would
/// take it for what it was promised.
pub(super) fn without_any(mut head: Parts) -> Parts {
    head.extensions.remove::<LockHandle>();
    head.extensions.remove::<FencingToken>();
    #[cfg(feature = "sql")]
    head.extensions.remove::<TxSeat>();
    head
}
