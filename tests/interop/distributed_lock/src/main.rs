//! The crate `distributed-lock` over PostgreSQL, for the works named postgres-… of `cargo bench -p tests`.
//!
//! Called with URL, KEY and TASKS, it takes and gives back one key from so many tasks. It says "ready",
//! waits for "START END" in Unix nanoseconds, and answers with the figures of the cycles that were
//! granted between them.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_postgres::PostgresLockProvider;
use sqlx::postgres::PgPoolOptions;

/// As the bench gives to each rival.
const CONNECTIONS: u32 = 16;
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [url, key, tasks] = &arguments[..] else { panic!("it is called with URL KEY TASKS") };
    let tasks: usize = tasks.parse().expect("a number of tasks");
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(PATIENCE)
        .test_before_acquire(false)
        .connect(url)
        .await
        .expect("a server");
    let provider = PostgresLockProvider::builder().pool(pool).build().await;
    let provider = Arc::new(provider.unwrap_or_else(|error| panic!("a provider: {error}")));
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("a line");
    let mut numbers = line.split_whitespace().map(|word| word.parse().expect("nanoseconds"));
    let (start, end): (u128, u128) = (numbers.next().unwrap(), numbers.next().unwrap());
    let tasks: Vec<_> = (0..tasks)
        .map(|_| tokio::spawn(cycles(provider.clone(), key.clone(), start, end)))
        .collect();
    let (mut grants, mut all) = (Vec::new(), Vec::new());
    for task in tasks {
        let cycles = task.await.expect("no panic");
        grants.push(cycles.len());
        all.extend(cycles);
    }
    all.sort_unstable();
    let p50 = all.get(all.len() / 2).copied().unwrap_or_default();
    println!("{{\"grants\":{grants:?},\"p50_us\":{}}}", p50.as_nanos() as f64 / 1e3);
}

/// How long each cycle took that was granted between the two.
async fn cycles(
    provider: Arc<PostgresLockProvider>,
    key: String,
    start: u128,
    end: u128,
) -> Vec<Duration> {
    let lock = provider.create_lock(&key);
    let mut cycles = Vec::new();
    while unix_ns() < end {
        let asked = Instant::now();
        let handle = lock.acquire(None).await;
        let handle = handle.unwrap_or_else(|error| panic!("a lock: {error}"));
        let granted = unix_ns();
        handle.release().await.unwrap_or_else(|error| panic!("a release: {error}"));
        if (start..end).contains(&granted) {
            cycles.push(asked.elapsed());
        }
    }
    cycles
}

fn unix_ns() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock").as_nanos()
}
