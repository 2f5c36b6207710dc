//! The idempotency engine over stores that answer as the test says, on a paused clock.

#![allow(clippy::disallowed_methods)] // the clock is paused

mod bounds;
mod cancel;
mod dropped;
mod duplicates;
mod faults;
mod gone;
mod late;
#[cfg(feature = "metrics")]
mod metrics;
mod outcomes;
mod rotation;

use std::time::Duration;

use bytes::Bytes;
use lock_core::LockClient;
use lock_core::idempotency::{
    BeginError, Begun, Duplicates, Execution, Fingerprint, Idempotency, MemoryRecords, RecordStore,
    Scope,
};
use lock_core::memory::Memory;
use lock_core::test_util::records::{RecordScript, ScriptedRecords};
use lock_core::test_util::{Script, Scripted};
use tokio::time::Instant;

type Test = Result<(), Box<dyn std::error::Error + Send + Sync>>;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// The fingerprint that most tests ask for.
const ASKED: Fingerprint = Fingerprint::new([1; 32]);

/// One lock store and one record store, seen by two processes: the requests of one follow the
/// scripts, those of the other are all served.
struct Stage {
    lock_store: Memory,
    records: MemoryRecords,
    lock_script: Script,
    script: RecordScript,
    once: Idempotency,
    other: Idempotency,
}

impl Stage {
    fn new() -> Self {
        let (lock_store, records) = (Memory::new(), MemoryRecords::new());
        let (backend, lock_script) = Scripted::new(lock_store.clone());
        let (scripted, script) = ScriptedRecords::new(records.clone());
        let once = Idempotency::new("tests", LockClient::with_backend(backend), scripted);
        let other = process(&lock_store, records.clone());
        Self { lock_store, records, lock_script, script, once, other }
    }

    /// Nobody asks for anything, and nothing but `records` records is left, within `within`.
    async fn is_clean(&self, records: usize, within: Duration) {
        for one in [&self.once, &self.other] {
            let report = one.locks().shutdown(within).await;
            assert!(report.complete && report.abandoned == 0, "{report:?} {:?}", one.stats());
            settle().await;
            assert_eq!(one.stats().busy, 0, "a key stays busy");
        }
        assert_eq!(self.lock_store.keys(), 0, "the lock store keeps a key");
        assert_eq!(self.records.len(), records, "records");
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert_eq!(tasks, 0, "tasks are left");
    }
}

/// One more process.
fn process(locks: &Memory, records: impl RecordStore) -> Idempotency {
    Idempotency::new("tests", LockClient::with_backend(locks.clone()), records)
}

async fn begin(once: &Idempotency) -> Result<Begun, BeginError> {
    once.begin(&Scope::of("tenant"), b"key", ASKED).await
}

/// Begins what must run.
async fn run(once: &Idempotency) -> Execution {
    match begin(once).await {
        Ok(Begun::Run(execution)) => execution,
        other => panic!("{other:?} is no run"),
    }
}

/// Asks for what must be there.
async fn replay(once: &Idempotency) -> Bytes {
    match begin(once).await {
        Ok(Begun::Replay(payload)) => payload,
        other => panic!("{other:?} is no replay"),
    }
}

fn rejecting(once: &Idempotency) -> Idempotency {
    once.clone().with_duplicates(Duplicates::Reject)
}

fn waiting(once: &Idempotency, wait: Duration) -> Idempotency {
    once.clone().with_duplicates(Duplicates::Wait(wait))
}

/// A request of its own task.
fn spawned(once: &Idempotency) -> tokio::task::JoinHandle<Result<Begun, BeginError>> {
    let once = once.clone();
    tokio::spawn(async move { begin(&once).await })
}

/// Lets all tasks run that can, without the clock going on.
async fn settle() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}

/// `expected` has passed since `since`, to the resolution of Tokio's timers.
#[track_caller]
fn assert_after(since: Instant, expected: Duration) {
    let took = since.elapsed();
    assert!(took >= expected && took <= expected + ms(5), "{took:?} is not {expected:?}");
}
