//! The one place of this crate that reads the monotonic clock.
//!
//! The clock is Tokio's, so that tests run on a paused one.

#![allow(clippy::disallowed_methods)]

use tokio::time::Instant;

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The instant after a pause of any length, be it without an end.
#[cfg(feature = "idempotency")]
pub(crate) fn after(pause: std::time::Duration) -> Instant {
    const LONG: std::time::Duration = std::time::Duration::from_secs(60 * 60 * 24 * 366);
    let now = now();
    now.checked_add(pause).unwrap_or_else(|| now + LONG)
}
