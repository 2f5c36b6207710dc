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

use crate::ground::{FAULT_PAUSES, Plus as _};
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
    fn beat_again(&self) -> Duration {
        self.ttl / 9
    }

    /// Whether the session is good for long enough to begin something. Between two keepalives that
    /// are in time it always is.
    pub(super) fn is_confirmed(&self, now: Instant) -> bool {
        now.plus(self.ttl / 6) <= self.valid_until()
    }
}

/// When keepalives are sent.
///
/// One that has failed says that nothing is proved, not for how long. A ninth of a long session is
/// a long time behind an outage that has ended. So the next is sent after a short pause, and at
/// once where another request was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beats {
    next: Instant,
    /// How many have failed since one was proved.
    failures: u32,
}

impl Beats {
    pub(super) fn start(clock: &SessionClock) -> Self {
        Self { next: clock.beat_at(), failures: 0 }
    }

    /// When the next is due.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// One was sent.
    pub(super) fn sent(&mut self, clock: &SessionClock, now: Instant) {
        self.next = now.plus(clock.beat_again());
    }

    /// One was proved.
    pub(super) fn proved(&mut self, clock: &SessionClock) {
        *self = Self::start(clock);
    }

    /// One has failed, with random bits for the jitter of the pause.
    pub(super) fn failed(&mut self, now: Instant, random: u32) {
        self.failures = self.failures.saturating_add(1);
        self.next = self.next.min(now.plus(FAULT_PAUSES.pause(self.failures, random)));
    }

    /// Another request was answered, after some were not.
    pub(super) fn served(&mut self, now: Instant) {
        if self.failures > 0 {
            self.next = self.next.min(now);
        }
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

    #[test]
    fn a_keepalive_follows_the_end_of_an_outage_at_once_however_long_the_session_is() {
        let (ttl, sent) = (Duration::from_secs(600), clock::now());
        let mut clock = SessionClock::start(ttl, sent);
        let mut beats = Beats::start(&clock);
        assert_eq!(beats.next(), sent + ttl / 3);
        let mut now = beats.next();
        for _ in 0..20 {
            beats.sent(&clock, now);
            assert_eq!(beats.next(), now + ttl / 9);
            now += Duration::from_secs(1);
            beats.failed(now, u32::MAX);
            assert!(beats.next() <= now + Duration::from_secs(1), "{:?}", beats.next() - now);
            now = beats.next();
        }
        beats.sent(&clock, now);
        beats.served(now);
        assert_eq!(beats.next(), now);
        beats.sent(&clock, now);
        clock.proved(now);
        beats.proved(&clock);
        assert_eq!(beats.next(), now + ttl / 3);
        // Nothing had failed.
        beats.served(now);
        assert_eq!(beats.next(), now + ttl / 3);
    }
}
