//! The members that are worth asking.
//!
//! A member that hangs costs each claim a request that nobody answers, and soon thousands of them
//! wait at it. So it is left alone while the others make a majority, but for a probe now and then.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::ground::Plus as _;

/// A member that has answered nothing for so long, though it was asked, hangs.
const HUNG_AFTER: Duration = Duration::from_millis(250);

/// One that hangs is asked so often, by one claim.
const PROBED_EVERY: Duration = Duration::from_millis(250);

/// The answers of one member of late, whoever asked.
#[derive(Debug, Default)]
pub(super) struct Health {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// When the first request was sent after the last answer.
    asked: Option<Instant>,
    /// When the next probe may be sent.
    probe_at: Option<Instant>,
}

impl Health {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is sent.
    pub(super) fn asked(&self, now: Instant) {
        self.seen().asked.get_or_insert(now);
    }

    /// The store has answered. That it could not be reached is no answer.
    pub(super) fn answered(&self) {
        *self.seen() = Seen::default();
    }

    /// Whether the member answers nothing, for all that is known.
    pub(super) fn hangs(&self, now: Instant) -> bool {
        self.seen().hangs(now)
    }

    /// Whether it is this claim's turn to find out if it still hangs.
    pub(super) fn probe(&self, now: Instant) -> bool {
        let mut seen = self.seen();
        let due = seen.probe_at.is_none_or(|at| at <= now);
        if due {
            seen.probe_at = Some(now.plus(PROBED_EVERY));
        }
        due
    }
}

impl Seen {
    fn hangs(&self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| now >= asked.plus(HUNG_AFTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::clock;

    #[test]
    fn a_member_hangs_when_it_was_asked_long_ago_and_an_answer_ends_that() {
        let (health, start) = (Health::default(), clock::now());
        let late = start + HUNG_AFTER * 10;
        assert!(!health.hangs(late), "nobody asked");
        health.asked(start);
        health.asked(late);
        assert!(!health.hangs(start + HUNG_AFTER - Duration::from_millis(1)));
        assert!(health.hangs(start + HUNG_AFTER), "the first request counts");
        health.answered();
        assert!(!health.hangs(late));
    }

    #[test]
    fn one_claim_at_a_time_probes() {
        let (health, start) = (Health::default(), clock::now());
        assert!(health.probe(start));
        assert!(!health.probe(start));
        assert!(health.probe(start + PROBED_EVERY));
    }
}
