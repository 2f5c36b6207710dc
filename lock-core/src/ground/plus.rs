//! The one way to an instant that lies ahead.
//!
//! Times come from callers, from stores and from servers, and "without an end" is a time, too. The
//! operators of `std` panic where the sum cannot be told, so clippy denies them in this crate.

use std::time::{Duration, Instant};

/// No process runs for so long, and every clock and timer can tell it: 30 years.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

pub(crate) trait Plus {
    /// This much later, however long that is: a time without an end is taken for 30 years.
    #[must_use]
    fn plus(self, time: Duration) -> Self;
}

impl Plus for Instant {
    #[inline]
    #[allow(clippy::arithmetic_side_effects)]
    fn plus(self, time: Duration) -> Self {
        self + time.min(FAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::clock;

    #[test]
    fn a_time_without_an_end_is_far_ahead_and_any_other_is_itself() {
        let now = clock::now();
        assert_eq!(now.plus(Duration::ZERO), now);
        assert_eq!(now.plus(FAR).saturating_duration_since(now), FAR);
        assert_eq!(now.plus(Duration::MAX), now.plus(FAR));
        // A time that counts from there is no panic either.
        assert!(now.plus(Duration::MAX).plus(Duration::MAX) > now.plus(FAR));
    }
}
