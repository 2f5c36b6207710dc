//! One call of a function under `#[idempotent]`.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde::Serialize;

use crate::idempotency::{
    BeginError, BeginRejection, Begun, CompleteError, Duplicates, Execution, FingerprintBuilder,
    Idempotency, IdempotencyError, Keep, OnUnknown, Replayable, Scope,
};
use crate::{CutWatch, Key, KeyError, LockHandle};

/// Engine, scope, key and options of a call. What is not given is the engine's choice.
#[derive(Debug)]
#[must_use]
pub struct Call {
    client: Option<Idempotency>,
    scope: Result<Scope, KeyError>,
    key: Result<Key, KeyError>,
    fingerprint: Result<FingerprintBuilder, String>,
}

impl Call {
    /// A call of the function `name`: another function under the same key is another call.
    pub fn new(
        client: Option<Idempotency>,
        scope: Result<Scope, KeyError>,
        key: Result<Key, KeyError>,
        name: &str,
    ) -> Self {
        Self { client, scope, key, fingerprint: Ok(FingerprintBuilder::new().field(name)) }
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

    fn choosing(mut self, choose: impl FnOnce(Idempotency) -> Idempotency) -> Self {
        self.client = self.client.map(choose);
        self
    }

    async fn begin(self) -> Result<Begun, IdempotencyError> {
        let no_client = || BeginError::from(BeginRejection::NoClient);
        let client = self.client.ok_or_else(no_client)?;
        let (scope, key) = (self.scope?, self.key?);
        let fingerprint =
            self.fingerprint.map_err(|reason| IdempotencyError::Fingerprint { reason })?;
        Ok(client.begin(&scope, key.as_str().as_bytes(), fingerprint.finish()).await?)
    }
}

/// What can be done with the function's value. Made apart from [`run`], so that a type that lacks
/// it is one error, where the type is written.
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
    let execution = match call.begin().await {
        Ok(Begun::Run(execution)) => execution,
        Ok(Begun::Replay(payload)) => return (values.replay)(&payload),
        Ok(Begun::InFlight { age }) => return refuse(IdempotencyError::InFlight { age }),
        Ok(Begun::WithoutPayload) => return refuse(IdempotencyError::WithoutPayload),
        Ok(Begun::Mismatch) => return refuse(IdempotencyError::Mismatch),
        Ok(Begun::Unknown { age }) => return refuse(IdempotencyError::Unknown { age }),
        Err(error) => return refuse(error),
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
    match end(execution, keep.unwrap_or(Keep::WithoutPayload), &watch).await {
        // It has happened: its caller is told so, whatever becomes of the record.
        Ok(()) | Err(CompleteError::Unavailable { .. }) => value,
        Err(error) => refuse(IdempotencyError::Stale(error)),
    }
}

async fn end(execution: Execution, keep: Keep, watch: &CutWatch) -> Result<(), CompleteError> {
    match keep {
        Keep::Payload(payload) => return execution.complete(payload).await,
        Keep::WithoutPayload => return execution.complete_without_payload().await,
        // An error of whatever type that came of a cut is no outcome.
        Keep::Nothing if !watch.has_seen_one() => abort(execution).await,
        Keep::Nothing | Keep::Unknown => execution.leave(),
    }
    Ok(())
}

/// The value is not to be kept.
async fn abort(execution: Execution) {
    // Whether the record is gone already is of no concern to who failed.
    drop(execution.abort().await);
}
