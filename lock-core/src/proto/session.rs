//! The clock of a ZooKeeper session: until when its nodes surely exist.
//!
//! A ping or a read that is answered proves nothing: a server that was cut off from the leader
//! answers both, while the leader counts the session out. A *write* is answered only by a
//! majority. But a write that a follower passes on does not make the leader count anew either:
//! the leader hears which sessions live from the followers, every half tick, and a session
//! timeout `T` is two ticks at least (the server's own lower bound), so at least every `T/4`.
//!
//! Two answered writes together prove it. The first, sent at `p`, was seen by the session's
//! server at `p` or later; the second, sent at `T/4` after `p` or later, went from that server to
//! the leader behind a report of the first. So the leader has counted the session anew at `p` or
//! later, and its nodes exist until `p + T` at least. With a write every `T/3` that is two thirds
//! of `T` from the sending of the last one, and a hold never counts as good for longer than that,
//! less the [margin](super::lease::margin).

use std::time::{Duration, Instant};

use super::lease::margin;

/// How many answered writes are remembered, and how far they are apart at least, as a part of the
/// timeout: together they reach back further than a report of a follower may take.
const REMEMBERED: usize = 8;
const APART: u32 = 24;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionClock {
    timeout: Duration,
    /// When the last answered write was sent.
    proved: Instant,
    /// The leader has counted the session anew at this time or later.
    counted: Instant,
    /// When earlier answered writes were sent, the latest last.
    earlier: [Instant; REMEMBERED],
}

impl SessionClock {
    /// A session of this timeout, whose opening was asked for at `sent`; the leader itself counts
    /// from there.
    pub(crate) fn start(timeout: Duration, sent: Instant) -> Self {
        Self { timeout, proved: sent, counted: sent, earlier: [sent; REMEMBERED] }
    }

    /// A write that was sent at `sent` was answered. Answers may come out of order.
    pub(crate) fn proved(&mut self, sent: Instant) {
        self.proved = self.proved.max(sent);
        let reported = self.timeout / 4;
        let known = self.earlier.iter().rev().find(|earlier| **earlier + reported <= sent);
        self.counted = known.map_or(self.counted, |known| self.counted.max(*known));
        if sent >= self.earlier[REMEMBERED - 1] + self.timeout / APART {
            self.earlier.rotate_left(1);
            self.earlier[REMEMBERED - 1] = sent;
        }
    }

    /// Until when the session's nodes surely exist.
    pub(crate) fn valid_until(&self) -> Instant {
        let end = (self.counted + self.timeout).min(self.proved + self.timeout * 2 / 3);
        end.checked_sub(margin(self.timeout * 2 / 3)).unwrap_or(self.counted)
    }

    /// When the next write is due: at a third of the timeout, or as soon as it makes up for a time
    /// in which this process stood still.
    pub(crate) fn beat_at(&self) -> Instant {
        let steady = self.counted + self.timeout >= self.proved + self.timeout * 2 / 3;
        self.proved + if steady { self.timeout / 3 } else { self.timeout / 4 }
    }

    /// How long to wait for one answer before the next write is sent as well.
    pub(crate) fn beat_again(&self) -> Duration {
        self.timeout / 9
    }

    /// Whether the session is good for long enough to begin something. Between two writes that
    /// are in time it always is.
    pub(crate) fn is_confirmed(&self, now: Instant) -> bool {
        now + self.timeout / 6 <= self.valid_until()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::clock;
    use proptest::prelude::*;

    const T: Duration = Duration::from_secs(12);

    fn full(sent: Instant) -> Instant {
        sent + T * 2 / 3 - margin(T * 2 / 3)
    }

    #[test]
    fn with_writes_at_thirds_a_hold_is_good_for_two_thirds_from_the_last() {
        let sent = clock::now();
        let mut clock = SessionClock::start(T, sent);
        assert_eq!(clock.valid_until(), full(sent));
        for third in 1..10 {
            let sent = sent + T / 3 * third;
            assert_eq!(clock.beat_at(), sent);
            assert!(clock.is_confirmed(sent));
            clock.proved(sent);
            assert_eq!(clock.valid_until(), full(sent));
        }
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
    fn after_a_time_of_standing_still_one_write_is_not_enough() {
        let sent = clock::now();
        let mut clock = SessionClock::start(T, sent);
        // Nothing was heard of the session for so long that the leader was about to count it out.
        let woken = sent + T * 9 / 10;
        clock.proved(woken);
        assert!(clock.valid_until() < sent + T);
        assert!(!clock.is_confirmed(woken));
        // A second write, behind a report of the first, is.
        assert_eq!(clock.beat_at(), woken + T / 4);
        clock.proved(clock.beat_at());
        assert!(clock.is_confirmed(woken + T / 4));
        assert!(clock.valid_until() > woken + T * 3 / 4);
    }

    #[test]
    fn a_session_that_writes_all_the_time_stays_at_its_best() {
        let sent = clock::now();
        let mut clock = SessionClock::start(T, sent);
        for ms in 1..=24_000 {
            clock.proved(sent + Duration::from_millis(ms));
        }
        let last = sent + Duration::from_secs(24);
        assert_eq!(clock.valid_until(), full(last));
    }

    proptest! {
        /// The leader counts a session from the last report; a report carries what came before it.
        #[test]
        fn it_never_outlives_the_session_at_the_leader(
            gaps in prop::collection::vec(1_u64..9_000, 1..60),
            phase in 0_u64..3_000,
        ) {
            let start = clock::now();
            let at = |ms: u64| start + Duration::from_millis(ms);
            let mut clock = SessionClock::start(T, start);
            let (mut now, mut seen) = (0, vec![0]);
            for gap in gaps {
                now += gap;
                // Reports every quarter of the timeout; the last one before this write.
                let reported = (now + 3_000 - phase) / 3_000 * 3_000;
                let reported = reported.saturating_sub(3_000 - phase);
                let counted = seen.iter().rev().find(|at| **at <= reported).copied().unwrap_or(0);
                if now > counted + 12_000 {
                    break;
                }
                clock.proved(at(now));
                seen.push(now);
                prop_assert!(clock.valid_until() < at(counted + 12_000));
            }
        }
    }
}
