//! Jittered pauses that double: the "equal jitter" of Marc Brooker, "Exponential Backoff And
//! Jitter" (2015). A pause is never shorter than half of its bound, and no two clients stay in
//! step.

use std::time::Duration;

use super::clock;

/// Pauses between the tries of one acquire, see [`retry_pause`].
const RETRY_PAUSES: Pauses = Pauses::new(Duration::from_millis(50), Duration::from_secs(1));

/// No pause between two tries of an acquire is shorter.
const RETRY_PAUSE_LEAST: Duration = Duration::from_millis(1);

/// Pauses between requests to a store that does not answer.
pub(crate) const FAULT_PAUSES: Pauses =
    Pauses::new(Duration::from_millis(20), Duration::from_secs(1));

/// Pauses between tries, each about twice the one before it, with jitter: a pause is never shorter
/// than half of its bound, and no two clients stay in step.
#[derive(Debug, Clone, Copy)]
pub struct Pauses {
    first: Duration,
    longest: Duration,
}

impl Pauses {
    /// Pauses from `first` on, and none longer than `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The pause after `failures` failures in a row (1 is the first).
    #[must_use]
    pub fn after(self, failures: u32) -> Duration {
        self.pause(failures, clock::random_bits())
    }

    /// The pause after `failures` failures (1 is the first), with `random` bits for the jitter.
    pub(crate) fn pause(self, failures: u32, random: u32) -> Duration {
        let doubled = self.first.saturating_mul(1 << failures.saturating_sub(1).min(16));
        let half = doubled.min(self.longest) / 2;
        half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

/// The pause of an acquire that has made `tries` and has `left` of its budget. It takes half of
/// that at most, so that there is time for the try behind it. None where too little is left.
pub(crate) fn retry_pause(tries: u32, left: Duration, random: u32) -> Option<Duration> {
    let pause = RETRY_PAUSES.pause(tries, random).min(left / 2);
    (pause >= RETRY_PAUSE_LEAST).then_some(pause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pause_is_between_half_its_bound_and_its_bound(failures: u32, random: u32) {
            let pause = RETRY_PAUSES.pause(failures, random);
            prop_assert!(pause >= RETRY_PAUSES.first / 2);
            prop_assert!(pause <= RETRY_PAUSES.longest);
        }
    }

    #[test]
    fn pauses_double_until_the_longest() {
        let bounds: Vec<_> = (1..8).map(|n| RETRY_PAUSES.pause(n, u32::MAX).as_millis()).collect();
        assert_eq!(bounds, [50, 100, 200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn a_retry_has_as_much_time_as_the_pause_before_it_and_none_is_made_in_the_last_moment() {
        let ms = Duration::from_millis;
        for (left, pause) in [(1_000, Some(50)), (60, Some(30)), (2, Some(1)), (1, None), (0, None)]
        {
            assert_eq!(retry_pause(1, ms(left), u32::MAX), pause.map(ms), "{left} ms left");
        }
        assert_eq!(retry_pause(9, Duration::MAX, u32::MAX), Some(ms(1_000)));
    }
}
