//! The one place of this crate that reads the monotonic clock.
//!
//! The clock is Tokio's, so that tests run on a paused one.

#![allow(clippy::disallowed_methods)]

use tokio::time::Instant;

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The instant so long after another; a time without an end is taken for 30 years. The operator
/// panics where the sum cannot be told, so clippy denies it in this crate.
#[cfg(any(feature = "idempotency", feature = "inspect"))]
#[allow(clippy::arithmetic_side_effects)]
pub(crate) fn after(since: Instant, time: std::time::Duration) -> Instant {
    const FAR: std::time::Duration = std::time::Duration::from_secs(30 * 365 * 24 * 60 * 60);
    since + time.min(FAR)
}
