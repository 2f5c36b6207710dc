//! The outcome of one load.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::target::End;

/// Counts while the load runs. Its memory does not grow with the load.
#[derive(Debug)]
pub(crate) struct Tally {
    span: Duration,
    budget: Duration,
    sent: u64,
    unsent: u64,
    served: u64,
    late: u64,
    in_vain: u64,
    failed: u64,
    done_us: Histogram<u64>,
    refused_us: Histogram<u64>,
    trouble: Option<String>,
}

/// The figures of one load.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    /// Requests that were due, per second.
    pub(crate) offered_per_s: f64,
    /// Requests done within the budget, per second of the load.
    pub(crate) goodput_per_s: f64,
    /// From when a request was due to when it was done.
    pub(crate) done_p50: Duration,
    pub(crate) done_p99: Duration,
    /// From when a request was due to its refusal.
    pub(crate) refused_p50: Duration,
    pub(crate) sent: u64,
    pub(crate) refused: u64,
    /// Waited for all of their budget.
    pub(crate) in_vain: u64,
    /// Done after their budget.
    pub(crate) late: u64,
    pub(crate) failed: u64,
    /// Due while as many were under way as may be.
    pub(crate) unsent: u64,
    /// The last fault.
    pub(crate) trouble: Option<String>,
}

/// Times in microseconds to three digits, up to ten minutes, in fixed memory.
pub(crate) fn times_us() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 3).expect("bounds that make sense")
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Tally {
    pub(crate) fn new(span: Duration, budget: Duration) -> Self {
        Self {
            span,
            budget,
            sent: 0,
            unsent: 0,
            served: 0,
            late: 0,
            in_vain: 0,
            failed: 0,
            done_us: times_us(),
            refused_us: times_us(),
            trouble: None,
        }
    }

    /// A request that was due and not sent.
    pub(crate) fn unsent(&mut self) {
        self.unsent += 1;
    }

    /// A request that was due at `due` and ended at `at`, both since the begin of the load.
    pub(crate) fn ended(&mut self, end: Result<End, String>, due: Duration, at: Duration) {
        self.sent += 1;
        let took = at.saturating_sub(due);
        match end {
            Ok(End::Done) => {
                self.done_us.saturating_record(micros(took));
                if took > self.budget {
                    self.late += 1;
                } else if at <= self.span {
                    // The requests that the line still held at the end are more than a load of this
                    // length can ask of the key.
                    self.served += 1;
                }
            }
            Ok(End::Refused) => self.refused_us.saturating_record(micros(took)),
            Ok(End::InVain) => self.in_vain += 1,
            Err(trouble) => {
                self.failed += 1;
                self.trouble = Some(trouble);
            }
        }
    }

    pub(crate) fn point(&self) -> Point {
        let per_s = |count: u64| count as f64 / self.span.as_secs_f64();
        let at = |histogram: &Histogram<u64>, quantile| {
            Duration::from_micros(histogram.value_at_quantile(quantile))
        };
        Point {
            offered_per_s: per_s(self.sent + self.unsent),
            goodput_per_s: per_s(self.served),
            done_p50: at(&self.done_us, 0.5),
            done_p99: at(&self.done_us, 0.99),
            refused_p50: at(&self.refused_us, 0.5),
            sent: self.sent,
            refused: self.refused_us.len(),
            in_vain: self.in_vain,
            late: self.late,
            failed: self.failed,
            unsent: self.unsent,
            trouble: self.trouble.clone(),
        }
    }
}

impl Point {
    /// `part` of all requests that were due, in percent.
    pub(crate) fn percent(&self, part: u64) -> f64 {
        100.0 * part as f64 / (self.sent + self.unsent).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn goodput_is_what_was_done_in_time_while_the_load_lasted() {
        let mut tally = Tally::new(ms(2_000), ms(1_000));
        for (due, at) in [(0, 10), (100, 1_100), (1_500, 2_000)] {
            tally.ended(Ok(End::Done), ms(due), ms(at));
        }
        tally.ended(Ok(End::Done), ms(0), ms(1_001));
        tally.ended(Ok(End::Done), ms(1_900), ms(2_001));
        let point = tally.point();
        assert_eq!((point.goodput_per_s, point.late), (1.5, 1));
        assert_eq!((point.offered_per_s, point.sent), (2.5, 5));
        assert!(point.done_p99 >= ms(1_000) && point.done_p99 <= ms(1_003), "{point:?}");
    }

    #[test]
    fn what_was_not_done_is_counted_by_its_kind_and_not_timed_as_done() {
        let mut tally = Tally::new(ms(1_000), ms(1_000));
        tally.ended(Ok(End::Refused), ms(5), ms(6));
        tally.ended(Ok(End::InVain), ms(0), ms(1_000));
        tally.ended(Err("no route".to_owned()), ms(0), ms(1));
        tally.unsent();
        let point = tally.point();
        assert_eq!((point.refused, point.in_vain, point.failed, point.unsent), (1, 1, 1, 1));
        assert_eq!((point.goodput_per_s, point.done_p99), (0.0, Duration::ZERO));
        assert_eq!(point.trouble.as_deref(), Some("no route"));
        assert_eq!((point.offered_per_s, point.percent(point.refused)), (4.0, 25.0));
        assert!(point.refused_p50 >= ms(1) && point.refused_p50 < ms(2));
    }

    #[test]
    fn a_load_without_a_request_is_all_zero() {
        let point = Tally::new(ms(1_000), ms(1_000)).point();
        assert_eq!((point.offered_per_s, point.percent(0)), (0.0, 0.0));
    }
}
