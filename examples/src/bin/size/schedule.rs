//! When requests come: at random, as those of people who do not know of each other, and the same
//! in every run.

use std::time::Duration;

/// The arrivals of one load, as times since its begin, in order.
#[derive(Debug)]
pub(crate) struct Schedule {
    chance: fastrand::Rng,
    mean_gap_s: f64,
    at_s: f64,
    span_s: f64,
}

impl Schedule {
    /// `per_s` on average for `span`, with exponential gaps.
    pub(crate) fn new(per_s: f64, span: Duration) -> Self {
        let chance = fastrand::Rng::with_seed(per_s.to_bits());
        Self { chance, mean_gap_s: 1.0 / per_s, at_s: 0.0, span_s: span.as_secs_f64() }
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // From 0 to just below 1, so the logarithm is of more than 0.
        self.at_s -= (1.0 - self.chance.f64()).ln() * self.mean_gap_s;
        (self.at_s < self.span_s).then(|| Duration::from_secs_f64(self.at_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_in_order_within_the_span_and_as_many_as_were_asked_for() {
        let span = Duration::from_secs(100);
        let all: Vec<_> = Schedule::new(100.0, span).collect();
        assert!(all.is_sorted() && all.iter().all(|at| *at < span));
        // Ten thousand with a deviation of a hundred.
        assert!((9_600..10_400).contains(&all.len()), "{}", all.len());
    }

    #[test]
    fn gaps_are_those_of_arrivals_that_do_not_know_of_each_other() {
        let all: Vec<_> = Schedule::new(100.0, Duration::from_secs(100)).collect();
        let mean = Duration::from_millis(10);
        let short = all.windows(2).filter(|pair| pair[1] - pair[0] < mean).count();
        // One less 1/e of them is shorter than the mean.
        let part = short as f64 / all.len() as f64;
        assert!((0.60..0.66).contains(&part), "{part}");
    }
}
