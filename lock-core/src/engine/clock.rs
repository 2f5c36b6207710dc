//! The one place that reads the monotonic clock and draws random numbers.
//!
//! The clock is Tokio's, so that tests run on a paused one. On Linux it is `CLOCK_MONOTONIC`,
//! which goes on while a process is stopped but not while the machine is suspended.

#![allow(clippy::disallowed_methods)]

use std::time::Instant;

use crate::backend::ClaimId;

/// The time by this process's own clock.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// A claim's name. The generator is seeded by the operating system; the name needs to be unique,
/// not secret.
pub(crate) fn random_claim_id() -> ClaimId {
    ClaimId::from_bits(fastrand::u128(..))
}

/// Random bits for jitter.
pub(crate) fn random_bits() -> u32 {
    fastrand::u32(..)
}
