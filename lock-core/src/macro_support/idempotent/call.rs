//! One call of a function under `#[idempotent]`.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(feature = "sql")]
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::error::KeyError;
use crate::idempotency::{
    BeginError, BeginRejection, Begun, CompleteError, Duplicates, Execution, FingerprintBuilder,
    Idempotency, IdempotencyError, Keep, OnUnknown, Outcome, Replayable, Scope,
};
#[cfg(feature = "sql")]
use crate::idempotency::{CommitError, Tx, TxSeat};
use crate::scope::CutWatch;
#[cfg(feature = "sql")]
use crate::sql::RecordDialect;
use crate::{Key, LockHandle};

/// Engine, scope, key and options of a call. What is not given is the engine's choice.
#[derive(Debug)]
#[must_use]
pub struct Call {
    client: Option<Idempotency>,
    scope: Result<Scope, KeyError>,
    key: Result<Key, KeyError>,
    fingerprint: Result<FingerprintBuilder, String>,
    end: Result<End, BeginRejection>,
}

/// How the execution of a call ends: with the transaction of its function, if it has one.
#[derive(Debug, Default)]
struct End {
    #[cfg(feature = "sql")]
    seat: Option<TxSeat>,
}

impl Call {
    /// A call of the function `name`: another function under the same key is another call.
    pub fn new(
        client: Option<Idempotency>,
        scope: Result<Scope, KeyError>,
        key: Result<Key, KeyError>,
        name: &str,
    ) -> Self {
        let fingerprint = Ok(FingerprintBuilder::new().field(name));
        Self { client, scope, key, fingerprint, end: Ok(End::default()) }
    }

    /// Adds a value to the fingerprint.
    pub fn field<V: Serialize + ?Sized>(mut self, value: &V) -> Self {
        self.fingerprint = self.fingerprint.and_then(|fingerprint| {
            let json = serde_json::to_vec(value).map_err(|error| error.to_string())?;
            Ok(fingerprint.field(json))
        });
        self
    }

    /// Says how long the value is kept.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.choosing(|client| client.with_record_ttl(ttl))
    }

    /// Says how long to wait for a call that runs.
    pub fn wait(self, wait: Duration) -> Self {
        self.choosing(|client| client.with_duplicates(Duplicates::Wait(wait)))
    }

    /// Says what to do where an earlier call left no outcome.
    pub fn on_unknown(self, on_unknown: OnUnknown) -> Self {
        self.choosing(|client| client.with_on_unknown(on_unknown))
    }

    /// Names the transaction that the function works in.
    #[cfg(feature = "sql")]
    pub fn tx<D: RecordDialect>(mut self, tx: &Tx<D>) -> Self {
        let seat = TxSeat::new();
        self.end = match tx.take_seat(seat.clone()) {
            true => Ok(End { seat: Some(seat) }),
            false => Err(BeginRejection::Transaction),
        };
        self
    }

    fn choosing(mut self, choose: impl FnOnce(Idempotency) -> Idempotency) -> Self {
        self.client = self.client.map(choose);
        self
    }

    async fn begin(self) -> Result<(Begun, End), IdempotencyError> {
        let no_client = || BeginError::from(BeginRejection::NoClient);
        let client = self.client.ok_or_else(no_client)?;
        let end = self.end.map_err(BeginError::from)?;
        let (scope, key) = (self.scope?, self.key?);
        let fingerprint =
            self.fingerprint.map_err(|reason| IdempotencyError::Fingerprint { reason })?;
        let begun = client.begin(&scope, key.as_str().as_bytes(), fingerprint.finish()).await?;
        Ok((begun, end))
    }
}

/// The ways to keep, to replay and to refuse the function's value. Made apart from [`run`], so that
/// a type that lacks them is one error, where the type is written.
#[derive(Debug)]
pub struct Values<R> {
    keep: fn(&R) -> Keep,
    replay: fn(&[u8]) -> R,
    refuse: fn(IdempotencyError) -> R,
}

/// As the type says.
#[must_use]
pub fn values<R: Replayable>() -> Values<R> {
    Values { keep: R::keep, replay: R::replay, refuse: R::refuse }
}

/// Runs `work` unless it has run: then what it came to is replayed.
///
/// # Cancel safety
///
/// Dropping it drops the work, then gives the execution up in the background.
pub async fn run<R, W, F>(call: Call, values: Values<R>, work: W) -> R
where
    W: FnOnce(LockHandle) -> F,
    F: Future<Output = R>,
{
    let refuse = values.refuse;
    let (begun, end) = match call.begin().await {
        Ok(begun) => begun,
        Err(error) => return refuse(error),
    };
    let execution = match begun {
        Begun::Run(execution) => execution,
        Begun::Replay(payload) => return (values.replay)(&payload),
        Begun::InFlight { age } => return refuse(IdempotencyError::InFlight { age }),
        Begun::WithoutPayload => return refuse(IdempotencyError::WithoutPayload),
        Begun::Mismatch => return refuse(IdempotencyError::Mismatch),
        Begun::Unknown { age } => return refuse(IdempotencyError::Unknown { age }),
    };
    let watch = CutWatch::new();
    let value = {
        let work = watch.scope(work(execution.handle()));
        // The loss first, so that work which was stopped past its lease does not go on.
        tokio::select! {
            biased;
            lost = execution.lost() => {
                // Cut in the middle: what it has done by now nobody knows.
                CutWatch::tell();
                execution.leave();
                return refuse(lost.into());
            }
            value = work => value,
        }
    };
    // It is read back as well. What panics there has happened all the same, and must not run again.
    let keep = catch_unwind(AssertUnwindSafe(|| (values.keep)(&value)));
    match end.end(execution, keep.unwrap_or(Keep::WithoutPayload), &watch).await {
        Ok(()) => value,
        Err(error) => refuse(error),
    }
}

impl End {
    async fn end(
        self,
        execution: Execution,
        keep: Keep,
        watch: &CutWatch,
    ) -> Result<(), IdempotencyError> {
        #[cfg(feature = "sql")]
        if let Some(seat) = self.seat.as_ref().filter(|seat| seat.is_taken())
            && matches!(keep, Keep::Payload(_) | Keep::WithoutPayload)
            && watch.has_seen_one()
        {
            // Half of it would be committed, whatever the function made of that.
            seat.roll_back().await;
            let id = execution.id();
            execution.leave();
            return Err(IdempotencyError::NotCommitted(Arc::new(CommitError::Cut { id })));
        }
        match keep {
            Keep::Payload(payload) => return self.keep(execution, Outcome::Payload(payload)).await,
            Keep::WithoutPayload => return self.keep(execution, Outcome::WithoutPayload).await,
            Keep::Nothing | Keep::Unknown => {}
        }
        #[cfg(feature = "sql")]
        if let Some(seat) = &self.seat {
            seat.roll_back().await;
        }
        match keep {
            // An error of whatever type that came of a cut is no outcome.
            Keep::Nothing if !watch.has_seen_one() => abort(execution).await,
            _ => execution.leave(),
        }
        Ok(())
    }

    #[cfg(feature = "sql")]
    async fn keep(self, execution: Execution, outcome: Outcome) -> Result<(), IdempotencyError> {
        let Some(seat) = self.seat else { return keep_alone(execution, outcome).await };
        match seat.complete(execution, outcome).await {
            Ok(()) => Ok(()),
            Err(CommitError::Record(error)) => kept(Err(error)),
            Err(error) => Err(IdempotencyError::NotCommitted(Arc::new(error))),
        }
    }

    #[cfg(not(feature = "sql"))]
    async fn keep(self, execution: Execution, outcome: Outcome) -> Result<(), IdempotencyError> {
        keep_alone(execution, outcome).await
    }
}

async fn keep_alone(execution: Execution, outcome: Outcome) -> Result<(), IdempotencyError> {
    kept(match outcome {
        Outcome::Payload(payload) => execution.complete(payload).await,
        Outcome::WithoutPayload => execution.complete_without_payload().await,
    })
}

/// It has happened: its caller is told so, whatever becomes of the record.
fn kept(kept: Result<(), CompleteError>) -> Result<(), IdempotencyError> {
    match kept {
        Ok(()) | Err(CompleteError::Unavailable { .. }) => Ok(()),
        Err(error) => Err(IdempotencyError::Stale(error)),
    }
}

/// The value is not to be kept.
async fn abort(execution: Execution) {
    // The record may be gone already, which is of no concern to a caller that failed.
    drop(execution.abort().await);
}
