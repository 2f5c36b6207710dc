//! The counters of a client.

use std::time::Duration;

/// Counters since the client was made, and gauges of this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Grants to callers, re-entries not counted.
    pub acquired: u64,
    /// Grants that came from another task of this process, without the store.
    pub handoffs_local: u64,
    /// Grants that the store handed over directly from another claim.
    pub handoffs_remote: u64,
    /// Tries whose wait ran out; a `try_acquire` that found the lock held is none.
    pub timeouts: u64,
    /// Acquires that were refused because waiting was of no use; see
    /// [`LockOptions::admission`](crate::LockOptions::admission).
    pub refused: u64,
    /// Holds that were over before their release.
    pub lost: u64,
    /// Renewals that the store answered.
    pub renewals: u64,
    /// Requests sent to the store; 0 for `memory:`.
    pub store_requests: u64,
    /// Keys that are busy now: held, waited for, or with a request under way.
    pub keys: usize,
    /// Waiters now.
    pub waiters: usize,
    /// Guards now; those that re-entered count once.
    pub held: usize,
}

/// How a shutdown went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Guards that were not released within the deadline, and were told that they are lost.
    pub abandoned: usize,
    /// Whether every claim was given back; if not, the rest ends with its lease.
    pub complete: bool,
    /// How long it took.
    pub took: Duration,
}
