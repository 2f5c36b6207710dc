//! The one place that reads the monotonic clock and draws random numbers.
//!
//! The clock is Tokio's, so that tests run on a paused one, and the time for which the machine was
//! suspended, see [`suspended`]. Timers know nothing of that time: one that was
//! set before a suspension is due so much later.

#![allow(clippy::disallowed_methods)]

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::time::Sleep;

use super::suspended;
use crate::backend::ClaimId;

/// The time by this process's own clock.
pub(crate) fn now() -> Instant {
    let running = tokio::time::Instant::now().into_std();
    running + suspended::so_far(running)
}

/// An instant of this clock for Tokio's timers.
pub(crate) fn timer(at: Instant) -> tokio::time::Instant {
    at.checked_sub(suspended::known()).unwrap_or(at).into()
}

/// A timer that is due at an instant of this clock.
pub(crate) fn sleep_until(at: Instant) -> Sleep {
    tokio::time::sleep_until(timer(at))
}

/// A claim's name: a count under a keyed hash whose key is the operating system's randomness, so
/// that no two processes draw the same, however alike they started.
pub(crate) fn random_claim_id() -> ClaimId {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let [high, low] = KEYS.each_ref().map(|key| u128::from(key.hash_one(count)));
    ClaimId::from_bits(high << 64 | low)
}

/// A number that nobody else draws.
pub(crate) fn random_u64() -> u64 {
    random_claim_id().bits() as u64
}

/// Random bits for jitter.
pub(crate) fn random_bits() -> u32 {
    fastrand::u32(..)
}
