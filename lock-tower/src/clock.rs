//! The one place of this crate that reads the monotonic clock and draws random numbers.
//!
//! The clock is Tokio's, so that tests run on a paused one.

#![allow(clippy::disallowed_methods)]

use tokio::time::Instant;

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Random bits for jitter.
pub(crate) fn random_bits() -> u32 {
    fastrand::u32(..)
}
