//! The `wait` and `retries` to choose, and why.

use std::time::Duration;

use crate::capacity::Capacity;

/// The number of requests that `LockLayer` lets wait for one key unless it is told otherwise.
const WAITERS_DEFAULT: u64 = 1_000;

/// The values to choose, or why nothing will do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Advice {
    /// A `wait` and `retries` that keep the budget.
    Choose { wait: Duration, retries: u32, waiters: u64, why: Vec<String> },
    /// No wait can keep the budget.
    Hopeless { why: String },
}

impl Advice {
    /// For callers that give an answer `budget`, at a key of this capacity.
    pub(crate) fn new(budget: Duration, measured: &Capacity, admission: bool) -> Self {
        let Capacity { per_s, hold_p50, hold_p99 } = *measured;
        // Under admission the budget of the lock has room for half of the holds already.
        let kept = if admission { hold_p99.saturating_sub(hold_p50) } else { hold_p99 };
        let whole = rounded(budget.saturating_sub(kept));
        if hold_p99 >= budget || whole.is_zero() {
            return Self::Hopeless {
                why: format!(
                    "one request in a hundred keeps the key for {} or longer, and the budget is \
                     {}: shorten the work under the lock, or give the callers more time",
                    text(hold_p99),
                    text(budget),
                ),
            };
        }
        let retries = u32::from(admission);
        let wait = rounded(whole / (1 + retries));
        let waiters = (per_s * whole.as_secs_f64()).ceil() as u64;
        let mut why = vec![format!(
            "{} of the budget of {} are for the wait: {} stay for {}",
            text(wait * (1 + retries)),
            text(budget),
            text(budget.saturating_sub(wait * (1 + retries))),
            if admission {
                "a hold that is longer than most (p99 less p50), as admission leaves room for one \
                 of the usual length by itself"
            } else {
                "the hold itself (p99)"
            },
        )];
        why.push(if admission {
            "under admission the tries share one place in the line, so their number makes no wait \
             longer or shorter; the second is for a fault of the store that passes"
                .to_owned()
        } else {
            "each retry begins at the end of the line again, so without admission one long wait \
             serves more than several short ones"
                .to_owned()
        });
        why.push(format!(
            "up to {waiters} requests of the key can be served in that time ({per_s:.0} per second)\
             {}",
            if waiters > WAITERS_DEFAULT {
                ", more than the layer lets wait by default: set waiters_per_key to that"
            } else {
                ""
            },
        ));
        if admission && hold_p50 > budget / 2 {
            why.push(
                "half of the holds take more than half of the budget: such a key serves hardly \
                 anybody who has to wait"
                    .to_owned(),
            );
        }
        Self::Choose { wait, retries, waiters, why }
    }

    /// The two numbers, if there are any.
    pub(crate) fn choice(&self) -> Option<(Duration, u32)> {
        match self {
            Self::Choose { wait, retries, .. } => Some((*wait, *retries)),
            Self::Hopeless { .. } => None,
        }
    }
}

/// Down to what a person would write: whole tens of milliseconds, or one of them.
fn rounded(time: Duration) -> Duration {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(if ms >= 100 { ms - ms % 10 } else { ms })
}

/// As a person would write it.
pub(crate) fn text(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s >= 1.0 => format!("{} s", trimmed(s)),
        s if s >= 0.001 => format!("{} ms", trimmed(s * 1e3)),
        s => format!("{:.0} µs", s * 1e6),
    }
}

fn trimmed(value: f64) -> String {
    let digits = format!("{value:.2}");
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn key(p50: u64, p99: u64) -> Capacity {
        Capacity { per_s: 1_000.0 / p50 as f64, hold_p50: ms(p50), hold_p99: ms(p99) }
    }

    #[test]
    fn under_admission_all_of_the_budget_is_waited_but_for_a_long_hold() {
        let advice = Advice::new(ms(4_000), &key(6, 16), true);
        let Advice::Choose { wait, retries, waiters, why } = advice else { panic!("{advice:?}") };
        // 4,000 less 10 in two halves, rounded down.
        assert_eq!((wait, retries, waiters), (ms(1_990), 1, 665));
        assert!(why.iter().any(|line| line.contains("one place in the line")), "{why:?}");
        assert!(!why.iter().any(|line| line.contains("waiters_per_key")), "{why:?}");
    }

    #[test]
    fn without_admission_there_is_one_try_and_room_for_the_hold() {
        let advice = Advice::new(ms(4_000), &key(6, 16), false);
        assert_eq!(advice.choice(), Some((ms(3_980), 0)));
    }

    #[test]
    fn the_budget_is_kept_by_any_key_for_which_there_is_advice() {
        for (budget, p50, p99) in
            [(4_000, 1, 1), (100, 5, 90), (99, 5, 90), (50, 49, 49), (7, 3, 6)]
        {
            for admission in [true, false] {
                let advice = Advice::new(ms(budget), &key(p50, p99), admission);
                let (wait, retries) = advice.choice().unwrap();
                let room = if admission { p99 - p50 } else { p99 };
                assert!(wait * (1 + retries) + ms(room) <= ms(budget), "{budget} {p50} {p99}");
                assert!(!wait.is_zero(), "{budget} {p50} {p99}");
            }
        }
    }

    #[test]
    fn a_hold_as_long_as_the_budget_gets_no_advice_but_the_reason() {
        for admission in [true, false] {
            let advice = Advice::new(ms(50), &key(40, 50), admission);
            let Advice::Hopeless { why } = &advice else { panic!("{advice:?}") };
            assert!(why.contains("50 ms") && advice.choice().is_none(), "{why}");
        }
    }

    #[test]
    fn a_line_longer_than_the_layer_allows_is_said() {
        let fast = Capacity { per_s: 2_000.0, hold_p50: ms(0), hold_p99: ms(1) };
        let Advice::Choose { waiters, why, .. } = Advice::new(ms(4_000), &fast, true) else {
            panic!("there is a choice");
        };
        assert_eq!(waiters, 7_980);
        assert!(why.iter().any(|line| line.contains("waiters_per_key")), "{why:?}");
    }

    #[test]
    fn times_are_written_as_a_person_would() {
        let written = [4_000, 1_990, 16, 1].map(|time| text(ms(time)));
        assert_eq!(written, ["4 s", "1.99 s", "16 ms", "1 ms"]);
        assert_eq!(text(Duration::from_micros(6_250)), "6.25 ms");
        assert_eq!(text(Duration::from_micros(40)), "40 µs");
    }
}
