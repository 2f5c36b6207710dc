//! The one clock that processes of one machine can compare.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`, the same for every process of this machine.
///
/// # Panics
///
/// If the system has no monotonic clock.
#[must_use]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a monotonic clock");
    let seconds = u64::try_from(now.tv_sec()).expect("a time since boot");
    let nanos = u64::try_from(now.tv_nsec()).expect("nanoseconds are positive");
    seconds * 1_000_000_000 + nanos
}
