//! Helpers that the suites of all stores share.

use std::future::Future;
use std::time::Duration;

use lock_core::error::{ConnectError, LossReason};
use lock_core::{ClientBuilder, LockClient, LockGuard, LockOptions, Mode};

pub use crate::actor::Actor;
pub use crate::said::everything;
pub use crate::scene::{History, LATE};
pub use crate::stalls::Stopwatch;
use crate::wait::{PATIENCE, eventually};

/// The time that a busy machine may add to a bound.
pub const SLACK: Duration = ms(1_500);

/// The longest time between two requests of a waiter at Redis.
pub const RECHECK: Duration = ms(500);

/// How long a waiter at Redis that does not ask again counts as alive, and a pushed grant lives at
/// most.
pub const CLAIM_LEASE: Duration = ms(1_500);

/// How often a client tries to connect, or a hold is begun, on a machine that takes its time.
const TRIES_MAX: u32 = 3;

/// So many milliseconds.
#[must_use]
pub const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A client whose acquires wait 9 s, with `lease`.
///
/// # Panics
///
/// If there is none to be had.
pub async fn connect(url: &str, lease: Duration) -> LockClient {
    connect_by(|| LockClient::builder(url), Mode::Exclusive, lease).await
}

/// The same by a builder, of a client that acquires in this mode.
///
/// # Panics
///
/// If there is none to be had.
pub async fn connect_by(
    builder: impl Fn() -> ClientBuilder,
    mode: Mode,
    lease: Duration,
) -> LockClient {
    let mut options = LockOptions::new().with_wait(ms(9_000)).with_lease(lease);
    options.mode = mode;
    let_in(|| builder().defaults(options).connect()).await.expect("a client")
}

/// One of many clients, or of one that has little time, which a busy machine may not let in at its first
/// try.
///
/// # Errors
///
/// That of a try, if it does not pass or was the last of three.
pub async fn let_in<F>(connect: impl Fn() -> F) -> Result<LockClient, ConnectError>
where
    F: Future<Output = Result<LockClient, ConnectError>>,
{
    let mut tries = 1;
    loop {
        match connect().await {
            Err(ConnectError::Store(fault)) if fault.is_transient() && tries < TRIES_MAX => {
                tries += 1;
            }
            answer => return answer,
        }
    }
}

/// A hold on `key` that was renewed so often. One that ran out by its own clock, as on a busy machine, is
/// begun anew.
///
/// # Panics
///
/// If the key is not free, or the hold was lost another way, or too often.
pub async fn renewed(locks: &LockClient, key: &str, times: u64) -> LockGuard {
    for _ in 0..TRIES_MAX {
        let guard = locks.lock(key).await.expect("a free key");
        let due = locks.stats().renewals + times;
        eventually("renewals", || locks.stats().renewals >= due || !guard.is_held()).await;
        if guard.is_held() {
            return guard;
        }
        assert_eq!(guard.lost().await.reason(), LossReason::Expired, "{key}");
    }
    panic!("the hold on {key} ran out {TRIES_MAX} times before it was renewed {times} times");
}

/// Gives a key back. On a busy machine that is not known within the 2 s of a release. The client goes
/// on with it, and what is left in the end is looked for.
///
/// # Panics
///
/// If the hold was lost before.
pub async fn given_back(guard: LockGuard) {
    if let Err(error) = guard.release().await {
        assert!(error.is_unavailable(), "{error}");
    }
}

/// Waits until nothing is left of this client but itself: no key is busy, nobody waits.
///
/// # Panics
///
/// If something is after [`PATIENCE`].
pub async fn idle(client: &LockClient) {
    eventually("no key is busy", || client.stats().keys == 0).await;
    let stats = client.stats();
    assert_eq!((stats.waiters, stats.held), (0, 0));
}

/// V6: of these clients, and of all other processes, no key busy, no waiter and no task is left in
/// this runtime, and at the servers nothing that `left` finds.
///
/// Tests that call it have joined the tasks of their own.
///
/// # Panics
///
/// If something is after [`PATIENCE`], with what `left` found.
pub async fn nothing_left(
    clients: impl IntoIterator<Item = LockClient>,
    left: impl FnMut() -> Vec<String>,
) {
    for client in clients {
        idle(&client).await;
    }
    nothing_left_after(PATIENCE, left).await;
}

/// The same after so long, where something ends by itself.
///
/// # Panics
///
/// If something is left after that.
pub async fn nothing_left_after(time: Duration, mut left: impl FnMut() -> Vec<String>) {
    let mut last = Vec::new();
    let deadline = tokio::time::Instant::now() + time;
    while tokio::time::Instant::now() < deadline {
        last = left();
        if last.is_empty() {
            break;
        }
        tokio::time::sleep(ms(5)).await;
    }
    assert_eq!(last, Vec::<String>::new(), "a finding of safety: left at the servers");
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    eventually("all tasks have ended", || tasks() == 0).await;
}
