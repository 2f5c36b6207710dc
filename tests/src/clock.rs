//! The one clock that processes of one machine can compare, and that of a process's own work.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`, the same for every process of this machine.
///
/// # Panics
///
/// If the system has no monotonic clock.
#[must_use]
pub fn now_ns() -> u64 {
    nanos_of(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds of processor time that all threads of this process have taken, user and system.
///
/// # Panics
///
/// If the system does not count it.
#[must_use]
pub fn cpu_ns() -> u64 {
    nanos_of(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

fn nanos_of(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("a clock of every Unix");
    let seconds = u64::try_from(time.tv_sec()).expect("a time since a beginning");
    let nanos = u64::try_from(time.tv_nsec()).expect("nanoseconds are positive");
    seconds * 1_000_000_000 + nanos
}
