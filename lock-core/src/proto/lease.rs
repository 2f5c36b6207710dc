//! The lease clock: when to renew, and when a hold is over whatever the store says.
//!
//! Validity counts from the last lease-extending request that the store answered, from the instant
//! it was *sent*. The holder gives up a safety margin earlier than the store does. The margin
//! allows for clocks that run at different speeds, and for the rounding of the store's timers.

use std::time::{Duration, Instant};

use crate::ground::Plus as _;

/// Clocks may differ in speed by one part in this many.
const DRIFT_SHARE: u32 = 100;

/// Rounding of the store's timers and of ours.
const MARGIN_LEAST: Duration = Duration::from_millis(2);

/// How much of a lease is left unused at its end.
pub(crate) fn margin(lease: Duration) -> Duration {
    lease / DRIFT_SHARE + MARGIN_LEAST
}

/// The time by which a lease that has run for so long by our clock may have run longer at the store.
/// It is the margin of that time. The clock of what is left has none but that of the rest.
pub(crate) fn drift(since: Duration) -> Duration {
    since / (DRIFT_SHARE - 1)
}

/// The clock of one granted claim.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseClock {
    valid_for: Duration,
    valid_until: Instant,
    renew_at: Instant,
}

impl LeaseClock {
    /// Starts at a grant that was asked for at `sent`.
    pub(crate) fn start(sent: Instant, valid_for: Duration) -> Self {
        Self {
            valid_for,
            valid_until: sent.plus(valid_for.saturating_sub(margin(valid_for))),
            renew_at: sent.plus(valid_for / 3),
        }
    }

    /// A renewal is sent. Once it is answered, the next is due at the time that counts from here,
    /// so that a timer which is set meanwhile can stay.
    pub(crate) fn renewal_begins(&mut self, sent: Instant) {
        self.renew_at = sent.plus(self.valid_for / 3);
    }

    /// A renewal that was sent at `sent` was answered. Never shortens the lease: an older answer
    /// may come after a newer one.
    pub(crate) fn renewed(&mut self, sent: Instant, valid_for: Duration) {
        let renewed = Self::start(sent, valid_for);
        if renewed.valid_until > self.valid_until {
            *self = renewed;
        } else {
            self.renew_at = self.renew_at.max(renewed.renew_at);
        }
    }

    /// A renewal was not answered: the next is due after a ninth of the lease.
    pub(crate) fn renewal_failed(&mut self, now: Instant) {
        self.renew_at = now.plus(self.valid_for / 9);
    }

    /// Whether the hold is still good at `now`.
    pub(crate) fn is_valid(&self, now: Instant) -> bool {
        now < self.valid_until
    }

    /// Whether half of `lease` is left, or of what the store gave last where that was less.
    ///
    /// While the store answers it is: a renewal is due at a third. A grant that was pushed at Redis
    /// is good for 1.5 s at most, whatever its lease. It is measured by that time, so that it can
    /// be handed on at once. It is renewed to its lease when a third of that time is over.
    pub(crate) fn has_half_of(&self, lease: Duration, now: Instant) -> bool {
        let left = self.valid_until.saturating_duration_since(now);
        left >= lease.min(self.valid_for) / 2
    }

    /// When the hold is over unless renewed.
    pub(crate) fn valid_until(&self) -> Instant {
        self.valid_until
    }

    /// When the next renewal is due.
    pub(crate) fn renew_at(&self) -> Instant {
        self.renew_at
    }

    /// The same where it is wanted so long after the last one that did not fail.
    pub(crate) fn renew_soon_at(&self, pause: Duration) -> Instant {
        let last = self.renew_at.checked_sub(self.valid_for / 3);
        last.map_or(self.renew_at, |last| self.renew_at.min(last.plus(pause)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::clock;

    const LEASE: Duration = Duration::from_secs(9);

    #[test]
    fn a_lease_counts_from_the_send_and_ends_a_margin_early() {
        let sent = clock::now();
        let clock = LeaseClock::start(sent, LEASE);
        let end = sent + LEASE - Duration::from_millis(92);
        assert_eq!(clock.valid_until(), end);
        assert!(clock.is_valid(end - Duration::from_nanos(1)));
        assert!(!clock.is_valid(end));
        assert_eq!(clock.renew_at(), sent + LEASE / 3);
    }

    #[test]
    fn what_is_due_while_a_renewal_is_under_way_is_due_when_it_was_answered() {
        let granted = clock::now();
        let mut clock = LeaseClock::start(granted, LEASE);
        let sent = granted + LEASE / 3;
        clock.renewal_begins(sent);
        let due = clock.renew_at();
        assert!(sent < due && due < clock.valid_until());
        clock.renewed(sent, LEASE);
        assert_eq!(clock.renew_at(), due);
        let soon = Duration::from_millis(500);
        assert_eq!(clock.renew_soon_at(soon), sent + soon);
        assert_eq!(clock.renew_soon_at(LEASE), due);
    }

    proptest::proptest! {
        #[test]
        fn a_clock_that_runs_slow_by_one_percent_ends_no_later_than_the_store(
            lease_us in 10_000_u64..=86_400_000_000,
        ) {
            let (sent, lease) = (clock::now(), Duration::from_micros(lease_us));
            let held = LeaseClock::start(sent, lease).valid_until() - sent;
            proptest::prop_assert!(held * 100 / 99 <= lease);
        }
    }

    #[test]
    fn an_unanswered_renewal_never_extends_and_is_tried_again_at_a_ninth() {
        let sent = clock::now();
        let mut clock = LeaseClock::start(sent, LEASE);
        let end = clock.valid_until();
        clock.renewal_failed(sent + LEASE / 3);
        assert_eq!(clock.valid_until(), end);
        assert_eq!(clock.renew_at(), sent + LEASE / 3 + LEASE / 9);
    }

    #[test]
    fn an_older_answer_does_not_shorten_the_lease() {
        let sent = clock::now();
        let mut clock = LeaseClock::start(sent, LEASE);
        clock.renewed(sent + LEASE / 3, LEASE);
        let end = clock.valid_until();
        clock.renewed(sent + LEASE / 9, LEASE);
        assert_eq!(clock.valid_until(), end);
    }

    #[test]
    fn half_of_a_lease_is_half_of_what_is_asked_for_or_of_what_the_store_gave_if_less() {
        let (sent, ms) = (clock::now(), Duration::from_millis);
        // Good until 8,908 ms.
        let clock = LeaseClock::start(sent, LEASE);
        for (asked, until) in [(9_000, 4_408), (18_000, 4_408), (4_000, 6_908), (0, 9_000)] {
            let has = |at| clock.has_half_of(ms(asked), sent + ms(at));
            assert!(has(0) && has(LEASE.as_millis() as u64 / 3), "{asked}");
            assert_eq!((has(until), has(until + 1)), (true, asked == 0), "{asked}");
        }
    }

    #[test]
    fn a_lease_shorter_than_its_margin_is_over_at_once() {
        let sent = clock::now();
        assert!(!LeaseClock::start(sent, Duration::from_millis(1)).is_valid(sent));
    }
}
