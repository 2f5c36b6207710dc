//! The counts of a process.

use std::iter::Sum;
use std::ops::{Add, Sub};
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};

use super::App;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) acquired: u64,
    pub(crate) handoffs_local: u64,
    pub(crate) handoffs_remote: u64,
    pub(crate) store_requests: u64,
    pub(crate) stale_writes: u64,
}

impl Counts {
    fn with(self, other: Self, op: fn(u64, u64) -> u64) -> Self {
        Self {
            acquired: op(self.acquired, other.acquired),
            handoffs_local: op(self.handoffs_local, other.handoffs_local),
            handoffs_remote: op(self.handoffs_remote, other.handoffs_remote),
            store_requests: op(self.store_requests, other.store_requests),
            stale_writes: op(self.stale_writes, other.stale_writes),
        }
    }
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |sum, counts| sum.with(counts, u64::add))
    }
}

pub(super) async fn counts(State(app): State<App>) -> Json<Counts> {
    let stats = app.locks.stats();
    Json(Counts {
        acquired: stats.acquired,
        handoffs_local: stats.handoffs_local,
        handoffs_remote: stats.handoffs_remote,
        store_requests: stats.store_requests,
        stale_writes: app.stale_writes.load(Ordering::Relaxed),
    })
}
