//! The counters of an engine.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the [`Idempotency`](super::Idempotency) was made, and a gauge of this moment.
/// Clones of it count together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct IdempotencyStats {
    /// Executions begun.
    pub executed: u64,
    /// Executions completed, with a payload or without, that the store has taken.
    pub completed: u64,
    /// Duplicates that were given a payload.
    pub replayed: u64,
    /// Duplicates that were told of an execution in flight.
    pub in_flight: u64,
    /// Requests under a key that was used for another payload.
    pub mismatches: u64,
    /// Duplicates of an execution that left an outcome without payload.
    pub without_payload: u64,
    /// Executions found without an outcome: those that were run again, and those refused.
    pub unknown: u64,
    /// Completions that came too late: another execution had taken over, so they were dropped.
    pub stale_completions: u64,
    /// Completions of which the caller was told that the store has not taken them in time.
    pub unwritten_completions: u64,
    /// Executions that were aborted, be it by dropping them.
    pub aborted: u64,
    /// Requests that the lock or the store could not serve.
    pub failed: u64,
    /// Keys that are asked for, or run, in this process now.
    pub busy: usize,
}

/// The counters behind it.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) executed: Counter,
    pub(super) completed: Counter,
    pub(super) replayed: Counter,
    pub(super) in_flight: Counter,
    pub(super) mismatches: Counter,
    pub(super) without_payload: Counter,
    pub(super) unknown: Counter,
    pub(super) stale_completions: Counter,
    pub(super) unwritten_completions: Counter,
    pub(super) aborted: Counter,
    pub(super) failed: Counter,
}

impl Counters {
    pub(super) fn read(&self, busy: usize) -> IdempotencyStats {
        IdempotencyStats {
            executed: self.executed.get(),
            completed: self.completed.get(),
            replayed: self.replayed.get(),
            in_flight: self.in_flight.get(),
            mismatches: self.mismatches.get(),
            without_payload: self.without_payload.get(),
            unknown: self.unknown.get(),
            stale_completions: self.stale_completions.get(),
            unwritten_completions: self.unwritten_completions.get(),
            aborted: self.aborted.get(),
            failed: self.failed.get(),
            busy,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
