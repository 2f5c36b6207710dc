//! A job of a schedule on three replicas: the first to come runs it, the others are told what it
//! came to, however late their timers are.
//!
//! `cargo run -p examples --example cron`

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::idempotency::{Idempotency, IdempotencyError, MemoryRecords};
use lock_core::{LockClient, idempotent};

static RUNS: AtomicU32 = AtomicU32::new(0);

struct Replica {
    number: u32,
    once: Idempotency,
}

/// `due` is the time of the schedule, the same on all replicas; not the time at which one began.
/// A night whose replica died in the middle is left to people: `on_unknown = "refuse"`.
#[idempotent(
    key = "example-cron:{due}", scope = global, client = replica.once, wait = "10s",
    on_unknown = "refuse", guard = lock
)]
async fn nightly(replica: &Replica, due: u64) -> Result<u32, IdempotencyError> {
    println!("replica {} does the work of {due}, under token {}", replica.number, lock.token());
    RUNS.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(replica.number)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // In a service: `LockClient::connect("redis://…")` with `RedisRecords`, or `sqlite://…` with
    // `SqlRecords`. The records here are those of one process, as the locks are.
    let records = MemoryRecords::new();
    let mut replicas = Vec::new();
    for number in 1..=3 {
        let locks = LockClient::connect("memory:example-cron").await?;
        replicas.push(Replica { number, once: Idempotency::new("shop", locks, records.clone()) });
    }

    // Two timers go off together. The third is late, and comes when the work is done.
    let due = 1_767_225_600;
    let (first, second) = tokio::try_join!(nightly(&replicas[0], due), nightly(&replicas[1], due))?;
    let third = nightly(&replicas[2], due).await?;
    println!("replica {first} ran it, say all three");
    assert!(first == second && second == third);
    assert_eq!(RUNS.load(Ordering::Relaxed), 1);

    // The next night is another run.
    nightly(&replicas[2], due + 86_400).await?;
    assert_eq!(RUNS.load(Ordering::Relaxed), 2);
    Ok(())
}
