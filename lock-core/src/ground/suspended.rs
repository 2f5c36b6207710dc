//! The time for which the machine was suspended. The monotonic clock stands still then, and leases
//! go on.
//!
//! Linux counts that time in `CLOCK_BOOTTIME`, which runs beside `CLOCK_MONOTONIC` at the same
//! speed. Their difference grows by the time of each suspension. [`clock::now`](super::clock::now)
//! adds what it has grown by since this process first looked. Other systems have no such pair of
//! clocks, and nothing is added there.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// The two clocks are compared no more often than this, as that costs two more readings. So a
/// process that goes on after a suspension runs for no longer than this before it knows.
const LOOK_EVERY_NANOS: u64 = 1_000_000;

/// The readings that the counting begins with.
#[derive(Debug)]
struct Begin {
    at: Instant,
    /// A time no less than the clocks were apart then, so that nothing is counted that was no
    /// suspension.
    apart: Duration,
}

static BEGIN: OnceLock<Begin> = OnceLock::new();
static LOOKED_NANOS: AtomicU64 = AtomicU64::new(0);
static SUSPENDED_NANOS: AtomicU64 = AtomicU64::new(0);
/// The time that a test has added.
static PRETENDED_NANOS: AtomicU64 = AtomicU64::new(0);

/// The time to add to the monotonic clock, which says `now`; `None` of none.
pub(super) fn so_far(now: Instant) -> Option<Duration> {
    let begin = BEGIN.get_or_init(|| {
        // The least of several readings, as this thread may be stopped in the middle of one.
        let apart = (0..4).map(|_| apart().1).min().unwrap_or_default();
        Begin { at: now, apart }
    });
    let since = now.saturating_duration_since(begin.at).as_nanos() as u64;
    // A paused test clock may be behind that of another runtime: it looks, too.
    if since.wrapping_sub(LOOKED_NANOS.load(Acquire)) >= LOOK_EVERY_NANOS {
        let pretended = Duration::from_nanos(PRETENDED_NANOS.load(Relaxed));
        let grown = (apart().0 + pretended).saturating_sub(begin.apart);
        SUSPENDED_NANOS.fetch_max(grown.as_nanos() as u64, Relaxed);
        // Behind what it found: whoever sees that somebody has looked sees that, too.
        LOOKED_NANOS.store(since, Release);
    }
    known()
}

/// The time that the last look has found, if any.
pub(super) fn known() -> Option<Duration> {
    let nanos = SUSPENDED_NANOS.load(Relaxed);
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

/// Has the whole process go on as if the machine had been suspended for so long.
#[cfg(all(feature = "test-util", any(target_os = "linux", target_os = "android")))]
pub(crate) fn pretend(suspended: Duration) {
    PRETENDED_NANOS.fetch_add(suspended.as_nanos() as u64, Relaxed);
}

/// The bounds of the clocks' difference: at least, and at most.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn apart() -> (Duration, Duration) {
    use nix::time::{ClockId, clock_gettime};

    // Every kernel since 2.6.39 has both. Without them nothing is added, as elsewhere.
    let read = |clock| clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
    let before = read(ClockId::CLOCK_MONOTONIC);
    let boot = read(ClockId::CLOCK_BOOTTIME);
    // Where this thread was stopped in between, that is no suspension.
    let after = read(ClockId::CLOCK_MONOTONIC);
    (boot.saturating_sub(after), boot.saturating_sub(before))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn apart() -> (Duration, Duration) {
    (Duration::ZERO, Duration::ZERO)
}
