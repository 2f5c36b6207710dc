//! The clock of a ZooKeeper session: until when its nodes surely exist.
//!
//! A ping or a read that is answered proves nothing: a server that was cut off from the leader
//! answers both, while the leader counts the session out. A *write* is answered only by a majority.
//! So an answered write that was sent at `s` proves that the session's server was in touch with
//! the leader after `s`. A server reports the sessions that it has heard from to the leader every
//! half tick, and this client is heard from at least every fifth of the timeout `T`; with `T` of
//! two ticks or more, which is the server's own lower bound, the last report that the leader got
//! is not older than `s - T/4`, and the session lives until `s + 3T/4` at least. A hold counts as
//! good until `s + 2T/3`, less the [margin](super::lease::margin).

use std::time::{Duration, Instant};

use super::lease::margin;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionClock {
    timeout: Duration,
    /// When the last write was sent that was answered.
    proved: Instant,
}

impl SessionClock {
    /// A session of this timeout, whose opening was answered and had been asked for at `sent`.
    pub(crate) fn start(timeout: Duration, sent: Instant) -> Self {
        Self { timeout, proved: sent }
    }

    /// A write that was sent at `sent` was answered. Answers may come out of order.
    pub(crate) fn proved(&mut self, sent: Instant) {
        self.proved = self.proved.max(sent);
    }

    /// Until when the session's nodes surely exist.
    pub(crate) fn valid_until(&self) -> Instant {
        let valid = self.timeout * 2 / 3;
        self.proved + valid.saturating_sub(margin(valid))
    }

    /// When the next proof is due.
    pub(crate) fn beat_at(&self) -> Instant {
        self.proved + self.timeout / 3
    }

    /// How long to wait for one proof before the next is asked for as well.
    pub(crate) fn beat_again(&self) -> Duration {
        self.timeout / 9
    }

    /// Whether a proof is due for so long that something is wrong.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        now >= self.beat_at() + self.beat_again()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::clock;

    const T: Duration = Duration::from_secs(9);

    #[test]
    fn validity_counts_from_the_send_of_the_last_answered_write() {
        let sent = clock::now();
        let mut clock = SessionClock::start(T, sent);
        let valid = T * 2 / 3 - margin(T * 2 / 3);
        assert_eq!(clock.valid_until(), sent + valid);
        clock.proved(sent + T / 3);
        assert_eq!(clock.valid_until(), sent + T / 3 + valid);
        // An answer that was overtaken takes nothing back.
        clock.proved(sent + T / 9);
        assert_eq!(clock.valid_until(), sent + T / 3 + valid);
    }

    #[test]
    fn a_hold_that_was_just_granted_has_a_third_of_the_timeout_left_at_least() {
        let sent = clock::now();
        let clock = SessionClock::start(T, sent);
        assert_eq!(clock.beat_at(), sent + T / 3);
        assert!(clock.valid_until() - clock.beat_at() > T / 3 - margin(T));
        assert!(!clock.is_overdue(clock.beat_at()));
        assert!(clock.is_overdue(clock.beat_at() + clock.beat_again()));
        assert!(clock.beat_at() + clock.beat_again() < clock.valid_until());
    }
}
