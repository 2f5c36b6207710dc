//! The clock of a ZooKeeper session: until when its nodes surely exist.
//!
//! A ping or a read that is answered proves nothing: a server that was cut off from the leader
//! answers both, while the leader counts the session out. A *write* is answered only by a majority.
//! But a write that a follower passes on does not make the leader count anew either. The leader
//! hears from the followers which sessions live, every half tick. A session timeout `T` is two
//! ticks at least (the server's own lower bound), so it hears about every `T/4`.
//!
//! Two answered writes together prove it. The first is sent at `p`. The session's server saw it
//! after `p` and before its answer. The second is sent `7T/24` after that answer, or later. It went
//! from that server to the leader behind a report of the first, if the leader's calls for reports
//! are late by less than `T/24`. So the leader has counted the session anew at `p` or later, and
//! its nodes exist until `p + T` at least. With a write every `T/3`, that is two thirds of `T` from
//! the sending of the last one. A hold never counts as good for longer than that, less the
//! [margin](crate::proto::lease::margin).

use std::time::{Duration, Instant};

use crate::ground::Plus as _;
use crate::proto::lease::margin;

/// The number of answered writes that are remembered, and how far they are apart at least, as a
/// part of the timeout. Together they reach back further than a report of a follower may take.
const REMEMBERED: usize = 12;
const APART: u32 = 24;

/// Until when one session surely lives.
///
/// It is [started](Self::start) by the first answered write. Each later one is reported by
/// [`proved`](Self::proved), and the next is due at [`beat_at`](Self::beat_at).
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionClock {
    timeout: Duration,
    /// The time when the last answered write was sent.
    proved: Instant,
    /// The leader has counted the session anew at this time or later.
    counted: Instant,
    /// Earlier answered writes, the latest last.
    earlier: [Mark; REMEMBERED],
}

/// One answered write.
#[derive(Debug, Clone, Copy)]
struct Mark {
    sent: Instant,
    answered: Instant,
}

impl SessionClock {
    /// A session of this timeout, whose opening was asked for at `sent`; the leader itself counts
    /// from there.
    pub(crate) fn start(timeout: Duration, sent: Instant, answered: Instant) -> Self {
        let earlier = [Mark { sent, answered }; REMEMBERED];
        Self { timeout, proved: sent, counted: sent, earlier }
    }

    /// A write that was sent at `sent` was answered at `answered`. Answers may come out of order.
    pub(crate) fn proved(&mut self, sent: Instant, answered: Instant) {
        self.proved = self.proved.max(sent);
        let reported = self.timeout * 7 / APART;
        let known = self.earlier.iter().rev().find(|mark| mark.answered.plus(reported) <= sent);
        self.counted = known.map_or(self.counted, |known| self.counted.max(known.sent));
        if sent >= self.earlier[REMEMBERED - 1].sent.plus(self.timeout / APART) {
            self.earlier.rotate_left(1);
            self.earlier[REMEMBERED - 1] = Mark { sent, answered };
        }
    }

    /// Until when the session's nodes surely exist.
    pub(crate) fn valid_until(&self) -> Instant {
        let end = self.counted.plus(self.timeout).min(self.proved.plus(self.timeout * 2 / 3));
        end.checked_sub(margin(self.timeout * 2 / 3)).unwrap_or(self.counted)
    }

    /// The time when the next write is due, at a third of the timeout. It is due sooner while that
    /// makes up for a time in which this process stood still.
    pub(crate) fn beat_at(&self) -> Instant {
        let steady = self.counted.plus(self.timeout) >= self.proved.plus(self.timeout * 2 / 3);
        self.proved.plus(if steady { self.timeout / 3 } else { self.timeout * 7 / APART })
    }

    /// How long to wait for one answer before the next write is sent as well.
    pub(crate) fn beat_again(&self) -> Duration {
        self.timeout / 9
    }

    /// Whether the session is good for long enough to begin something. Between two writes that
    /// are in time it always is.
    pub(crate) fn is_confirmed(&self, now: Instant) -> bool {
        now.plus(self.timeout / 6) <= self.valid_until()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::clock;
    use proptest::prelude::*;

    const T: Duration = Duration::from_secs(12);

    /// Answered at once.
    fn write(clock: &mut SessionClock, sent: Instant) {
        clock.proved(sent, sent);
    }

    fn full(sent: Instant) -> Instant {
        sent + T * 2 / 3 - margin(T * 2 / 3)
    }

    #[test]
    fn with_writes_at_thirds_a_hold_is_good_for_two_thirds_from_the_last() {
        let sent = clock::now();
        let mut clock = SessionClock::start(T, sent, sent);
        assert_eq!(clock.valid_until(), full(sent));
        for third in 1..10 {
            let sent = sent + T / 3 * third;
            assert_eq!(clock.beat_at(), sent);
            assert!(clock.is_confirmed(sent));
            clock.proved(sent, sent + T / 24);
            assert_eq!(clock.valid_until(), full(sent));
        }
    }

    #[test]
    fn three_writes_fit_between_two_that_are_due() {
        let sent = clock::now();
        assert_eq!(SessionClock::start(T, sent, sent).beat_again(), T / 9);
    }

    #[test]
    fn an_answer_that_was_overtaken_takes_nothing_back() {
        let sent = clock::now();
        let mut clock = SessionClock::start(T, sent, sent);
        write(&mut clock, sent + T / 3);
        let until = clock.valid_until();
        clock.proved(sent + T / 9, sent + T / 3);
        assert_eq!(clock.valid_until(), until);
    }

    #[test]
    fn after_a_time_of_standing_still_one_write_is_not_enough() {
        let sent = clock::now();
        let mut clock = SessionClock::start(T, sent, sent);
        // Nothing was heard of the session for so long that the leader was about to count it out.
        let woken = sent + T * 9 / 10;
        write(&mut clock, woken);
        assert!(clock.valid_until() < sent + T);
        assert!(!clock.is_confirmed(woken));
        // A second write, behind a report of the first, is.
        assert_eq!(clock.beat_at(), woken + T * 7 / 24);
        let second = clock.beat_at();
        write(&mut clock, second);
        assert!(clock.is_confirmed(second));
        assert!(clock.valid_until() > woken + T * 3 / 4);
    }

    #[test]
    fn a_session_that_writes_all_the_time_stays_near_its_best() {
        let sent = clock::now();
        let mut clock = SessionClock::start(T, sent, sent);
        for ms in 1..=24_000 {
            write(&mut clock, sent + Duration::from_millis(ms));
        }
        let last = sent + Duration::from_secs(24);
        assert!(clock.valid_until() > full(last) - T / 12);
    }

    proptest! {
        /// A report is made every quarter of the timeout, late by up to `T/24`. It carries what
        /// reached the server before it. A write reaches the server at some time before its answer.
        #[test]
        fn it_never_outlives_the_session_at_the_leader(
            writes in prop::collection::vec((1_u64..9_000, 0_u64..1_500, 0.0..1.0), 1..60),
            late in prop::collection::vec(0_u64..500, 80),
            phase in 0_u64..3_000,
        ) {
            let start = clock::now();
            let at = |ms: u64| start + Duration::from_millis(ms);
            let mut clock = SessionClock::start(T, start, start);
            let mut reports = Vec::new();
            for late in late {
                let last = reports.last().map_or(phase, |last| last + 3_000);
                reports.push(last + late);
            }
            let (mut sent, mut seen) = (0, vec![0]);
            for (gap, delay, part) in writes {
                sent += gap;
                let (arrived, answered) = (sent + (delay as f64 * part) as u64, sent + delay);
                let report = reports.iter().rev().find(|at| **at <= arrived).copied().unwrap_or(0);
                let counted = seen.iter().filter(|at| **at <= report).max().copied().unwrap_or(0);
                if arrived > counted + 12_000 || reports.last().is_some_and(|end| arrived > *end) {
                    break;
                }
                clock.proved(at(sent), at(answered));
                seen.push(arrived);
                prop_assert!(clock.valid_until() < at(counted + 12_000));
                sent = answered;
            }
        }
    }
}
