//! Executions of the idempotency engine, as the suites of each record store begin them.

use bytes::Bytes;
use lock_core::idempotency::{BeginError, Begun, Execution, Fingerprint, Idempotency, Scope};

/// Asks for a key, as every request of these tests does.
///
/// # Errors
///
/// As [`Idempotency::begin`].
pub async fn begin(once: &Idempotency, key: &str) -> Result<Begun, BeginError> {
    once.begin(&Scope::of("tests"), key.as_bytes(), Fingerprint::new([1; 32])).await
}

/// Begins what must run.
///
/// # Panics
///
/// Where it does not.
pub async fn run(once: &Idempotency, key: &str) -> Execution {
    match begin(once, key).await {
        Ok(Begun::Run(execution)) => execution,
        other => panic!("{other:?} is no run"),
    }
}

/// Asks for what must be there.
///
/// # Panics
///
/// Where it is not.
pub async fn replay(once: &Idempotency, key: &str) -> Bytes {
    match begin(once, key).await {
        Ok(Begun::Replay(payload)) => payload,
        other => panic!("{other:?} is no replay"),
    }
}
