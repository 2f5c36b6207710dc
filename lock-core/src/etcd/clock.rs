//! The clock of a session: until when its keys surely exist.
//!
//! The leader counts a lease from the keepalive that it served. So the keys of the lease exist for
//! its TTL from the instant at which an answered keepalive was *sent*. A new leader counts each
//! lease anew from its election, which is later still.
//!
//! An answer proves that only if it was the leader's. One that was voted out, and does not know it
//! yet, answers keepalives as well: of etcd before 3.5.3 without a look at the others. So behind
//! each keepalive goes a read that a majority confirms. If it was made in the term of the
//! keepalive's answer, no other leader had been elected when that answer was given.
//!
//! An unanswered keepalive changes nothing here: what was proved before stays so until its end.

use std::time::{Duration, Instant};

use crate::ground::Plus as _;
use crate::proto::lease::margin;

/// Until when one session surely lives.
#[derive(Debug, Clone, Copy)]
pub(super) struct SessionClock {
    ttl: Duration,
    /// When the last proved keepalive was sent.
    proved: Instant,
}

impl SessionClock {
    /// A session of this TTL, whose lease was asked for at `sent`.
    pub(super) fn start(ttl: Duration, sent: Instant) -> Self {
        Self { ttl, proved: sent }
    }

    /// A keepalive that was sent at `sent` was answered and confirmed. Answers may come out of
    /// order.
    pub(super) fn proved(&mut self, sent: Instant) {
        self.proved = self.proved.max(sent);
    }

    /// Until when the keys surely exist.
    pub(super) fn valid_until(&self) -> Instant {
        let end = self.proved.plus(self.ttl);
        end.checked_sub(margin(self.ttl)).unwrap_or(self.proved)
    }

    /// When the next keepalive is due.
    pub(super) fn beat_at(&self) -> Instant {
        self.proved.plus(self.ttl / 3)
    }

    /// How long to wait for one answer before the next keepalive is sent as well.
    pub(super) fn beat_again(&self) -> Duration {
        self.ttl / 9
    }

    /// Whether the session is good for long enough to begin something. Between two keepalives that
    /// are in time it always is.
    pub(super) fn is_confirmed(&self, now: Instant) -> bool {
        now.plus(self.ttl / 6) <= self.valid_until()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::clock;

    const T: Duration = Duration::from_secs(9);

    #[test]
    fn it_counts_from_the_sending_and_ends_before_the_lease() {
        let sent = clock::now();
        let mut clock = SessionClock::start(T, sent);
        assert_eq!(clock.valid_until(), sent + T - margin(T));
        clock.proved(sent + T / 3);
        assert_eq!(clock.valid_until(), sent + T / 3 + T - margin(T));
        assert_eq!(clock.beat_at(), sent + T / 3 * 2);
    }

    #[test]
    fn an_answer_that_was_overtaken_takes_nothing_back() {
        let sent = clock::now();
        let mut clock = SessionClock::start(T, sent);
        clock.proved(sent + T / 3);
        let until = clock.valid_until();
        clock.proved(sent + T / 9);
        assert_eq!(clock.valid_until(), until);
    }

    #[test]
    fn nothing_begins_in_the_last_sixth() {
        let sent = clock::now();
        let clock = SessionClock::start(T, sent);
        assert!(clock.is_confirmed(sent + T * 2 / 3));
        assert!(!clock.is_confirmed(sent + T * 5 / 6));
    }
}
