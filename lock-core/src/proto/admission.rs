//! How long a waiter will wait, from how long those before it held. This decides at arrival whether
//! waiting is of any use.
//!
//! The *occupancy* is the time from one grant to the next while somebody waits. It contains the
//! hand-off, and the turns of other processes, so the estimate needs to know nothing of them. With
//! its running mean `h` and deviation `sd`, and `n` ahead, the holder included, the wait is taken
//! to be
//!
//! `residual + (n - 1) * h + 1.64 * sd * sqrt(n + n^2 / m)`
//!
//! which is enough for 19 of 20 if occupancies do not depend on each other. It is the upper bound
//! of a prediction from a mean that is itself known from `m` samples only. The residual is what the
//! current hold has left of `h`. A hold that takes longer than usual is taken to last as long again
//! as it is late, so that a stuck holder closes the door behind it. A part of the budget is kept
//! free beyond that, for a mean that drifts while a waiter waits.
//!
//! Below [`SAMPLES_MIN`] samples nothing is known and everybody is let in. Below [`SAMPLES_SURE`]
//! little is known, and the first holds of a rush are often the slowest. So only those are refused
//! who come *in vain*: their time is up even if all holds ahead are as short as the shortest tenth.
//! Waiters in line who are later seen to wait in vain are told then, from the back of the line.
//!
//! The estimator of a key is made when two tasks want it at once, and goes with its cell. So a
//! million keys that nobody contends cost nothing. It decides in the cohort, where all waiters of
//! the process stand, as does the cap on waiters (`waiters_max`).

use std::time::{Duration, Instant};

use super::quantiles::Samples;
use crate::view::Quantiles;

/// Nothing is estimated from fewer samples.
const SAMPLES_MIN: u64 = 8;

/// A refusal that is not certain needs so many.
const SAMPLES_SURE: u64 = 32;

/// The mean is that of all samples up to this number. Beyond it, the mean forgets a sample after so
/// many. That is enough to see the turns of other processes, which come once in 64 hand-offs or
/// more often.
const MEMORY: u32 = 64;

/// So many plain samples would give a mean as good as the one that forgets.
const WORTH: u32 = 2 * MEMORY - 1;

/// An occupancy counts for so many times the mean at most, as a single pause of the process says
/// nothing about the holds to come. It counts in full if another one was as long a short while ago.
const OUTLIER: f64 = 8.0;
const OUTLIER_AGAIN_WITHIN: u64 = 2 * MEMORY as u64;

/// In seconds. No occupancy that is shorter is an outlier.
const OUTLIER_MIN: f64 = 0.001;

/// The deviations above the mean that 19 of 20 samples of a normal distribution stay below.
const DEVIATIONS: f64 = 1.64;

/// The part of an estimate that is added to it for drift. A machine that slows down by a few
/// percent makes everybody late who was let in at the end of a long line. The addition costs
/// nothing: the key is busy as long as anybody waits.
const DRIFT: f64 = 0.1;

/// The estimator of one key: what its holds and waits were like of late.
///
/// It is told of each grant ([`granted`](Self::granted), or [`begins`](Self::begins) where nobody
/// had waited), of each end of a hold ([`released`](Self::released)), and when the key lies
/// [`idle`](Self::idle). A waiter that arrives asks [`refuses`](Self::refuses).
#[derive(Debug)]
pub(crate) struct Admission {
    /// In seconds.
    mean: f64,
    variance: f64,
    samples: u64,
    /// The longest of the first samples, until there are enough of them.
    longest: f64,
    /// How many samples there were at the last outlier.
    outlier: Option<u64>,
    /// When the key was last granted here.
    granted: Instant,
    /// Whether somebody has waited ever since.
    awaited: bool,
    holds: Samples,
    waits: Samples,
    /// Half of the holds took about this long.
    median: Duration,
    /// All but a tenth of the holds took about this long or longer, and surely the second.
    shortest: (Duration, Duration),
}

/// The line as it is when a waiter arrives or waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead {
    /// Waiters ahead of it here, the holder included.
    pub(crate) here: usize,
    /// Claims of other processes that the store counted ahead of ours, and how long ago.
    pub(crate) claims: u32,
    pub(crate) counted: Duration,
}

impl Admission {
    /// The key was granted at `granted`. What passed before anybody waited is no sample.
    pub(crate) fn new(granted: Instant) -> Self {
        Self {
            mean: 0.0,
            variance: 0.0,
            samples: 0,
            longest: 0.0,
            outlier: None,
            granted,
            awaited: false,
            holds: Samples::new(),
            waits: Samples::new(),
            median: Duration::ZERO,
            shortest: (Duration::ZERO, Duration::ZERO),
        }
    }

    /// The key was granted to somebody who had waited for `waited`.
    pub(crate) fn granted(&mut self, waited: Duration, now: Instant) {
        if self.awaited {
            self.sample(now);
        }
        self.waits.record(waited);
        self.begins(now);
    }

    /// A hold begins.
    pub(crate) fn begins(&mut self, now: Instant) {
        (self.granted, self.awaited) = (now, true);
    }

    /// A hold ended after `hold`.
    pub(crate) fn released(&mut self, hold: Duration) {
        self.holds.record(hold);
        if self.samples < SAMPLES_SURE || self.samples.is_multiple_of(SAMPLES_MIN) {
            self.median = self.holds.about(0.5).unwrap_or_default();
            let shortest = self.holds.quantile(0.1).unwrap_or_default();
            self.shortest = ((shortest.0 + shortest.1) / 2, shortest.0);
        }
    }

    /// Nobody holds the key here, and nobody waits: until it is wanted again nobody occupies it.
    pub(crate) fn idle(&mut self, now: Instant) {
        if std::mem::take(&mut self.awaited) {
            self.sample(now);
        }
    }

    fn sample(&mut self, now: Instant) {
        let mut sample = now.saturating_duration_since(self.granted).as_secs_f64();
        let most = longest_beside(self.mean);
        if self.knows() && sample > most {
            let again = |before| self.samples - before <= OUTLIER_AGAIN_WITHIN;
            if !self.outlier.replace(self.samples).is_some_and(again) {
                sample = most;
            }
        }
        self.samples += 1;
        self.add(sample, 1.0 / self.samples.min(MEMORY.into()) as f64);
        if self.samples <= SAMPLES_MIN {
            self.longest = self.longest.max(sample);
            if self.samples == SAMPLES_MIN {
                self.cut_the_longest();
            }
        }
    }

    fn add(&mut self, sample: f64, share: f64) {
        let off = sample - self.mean;
        self.mean += share * off;
        self.variance = (1.0 - share) * (self.variance + share * off * off);
    }

    /// Among the first samples the longest is cut as any later one would be: a slow start says
    /// nothing about the holds to come.
    fn cut_the_longest(&mut self) {
        let all = SAMPLES_MIN as f64;
        let others = (self.mean * all - self.longest) / (all - 1.0);
        let most = longest_beside(others);
        if self.longest <= most {
            return;
        }
        self.outlier = Some(self.samples);
        let squares = (self.variance + self.mean * self.mean) * all - self.longest * self.longest;
        let spread = squares / (all - 1.0) - others * others;
        (self.mean, self.variance) = (others, spread.max(0.0));
        self.add(most, 1.0 / all);
    }

    pub(crate) fn knows(&self) -> bool {
        self.samples >= SAMPLES_MIN
    }

    /// Whether it is time to look who waits in vain.
    pub(crate) fn is_time_to_look(&self) -> bool {
        self.knows() && self.samples.is_multiple_of(SAMPLES_MIN)
    }

    /// How long half of the holds took; zero if that is not known.
    pub(crate) fn median_hold(&self) -> Duration {
        // Holds are remembered for longer than occupancies: when they have become shorter, the
        // mean knows first.
        if self.knows() { self.median.min(self.mean()) } else { Duration::ZERO }
    }

    fn mean(&self) -> Duration {
        Duration::try_from_secs_f64(self.mean).unwrap_or(Duration::MAX)
    }

    /// How long the wait behind `ahead` will be in 19 of 20 cases; `None` if too little is known.
    pub(crate) fn estimate(&self, ahead: Ahead, now: Instant) -> Option<Duration> {
        if !self.knows() {
            return None;
        }
        let n = ahead.here.max(1) as f64;
        let age = now.saturating_duration_since(self.granted).as_secs_f64();
        // Each claim ahead of ours has one hold at least.
        let residual = (self.mean - age).abs();
        let claims = self.median.as_secs_f64() * f64::from(ahead.claims);
        let residual = residual.max(claims - ahead.counted.as_secs_f64());
        let known = self.samples.min(WORTH.into()) as f64;
        let spread = DEVIATIONS * (self.variance * (n + n * n / known)).sqrt();
        Duration::try_from_secs_f64(residual + (n - 1.0) * self.mean + spread).ok()
    }

    /// Whether a waiter who has `left` of its `budget` comes in vain behind `ahead`; then, how
    /// long it would have to wait.
    pub(crate) fn refuses(
        &self,
        ahead: Ahead,
        left: Duration,
        budget: Duration,
        now: Instant,
    ) -> Option<Duration> {
        let estimate = self.estimate(ahead, now)?;
        if self.samples < SAMPLES_SURE {
            // Its own hold has to end in time, too.
            let is_late = at_least(self.shortest.0.min(self.mean()), ahead.here) > left;
            return is_late.then_some(estimate);
        }
        (estimate.mul_f64(1.0 + DRIFT) + self.needed(budget) > left).then_some(estimate)
    }

    /// Whether the time of a waiter with `left` is up before its turn comes even if all of these
    /// holds ahead are short.
    pub(crate) fn is_in_vain(&self, ahead: usize, left: Duration) -> bool {
        self.knows() && at_least(self.shortest.1.min(self.mean()), ahead) > left
    }

    /// The part of a budget that must be left at the grant. One that could not hold two holds
    /// bounds the wait alone.
    pub(crate) fn needed(&self, budget: Duration) -> Duration {
        let hold = self.median_hold();
        if hold <= budget / 2 { hold } else { Duration::ZERO }
    }

    pub(crate) fn holds(&self) -> Option<Quantiles> {
        quantiles(&self.holds)
    }

    pub(crate) fn waits(&self) -> Option<Quantiles> {
        quantiles(&self.waits)
    }
}

/// The longest that is no outlier where `mean` is usual; in seconds.
fn longest_beside(mean: f64) -> f64 {
    (OUTLIER * mean).max(OUTLIER_MIN)
}

/// How long `holds` of at least this take.
fn at_least(hold: Duration, holds: usize) -> Duration {
    hold.saturating_mul(u32::try_from(holds).unwrap_or(u32::MAX))
}

fn quantiles(of: &Samples) -> Option<Quantiles> {
    Some(Quantiles { p50: of.about(0.5)?, p90: of.about(0.9)?, p99: of.about(0.99)? })
}

#[cfg(test)]
mod tests;
