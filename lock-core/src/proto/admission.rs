//! How long a waiter will wait, from how long those before it held: what decides at arrival
//! whether waiting is of any use.
//!
//! The *occupancy* is the time from one grant to the next while somebody waits. It contains the
//! hand-off, and the turns of other processes, so the estimate needs to know nothing of them. With
//! its running mean `h` and deviation `sd`, and `n` ahead, the holder included, the wait is taken
//! to be
//!
//! `residual + (n - 1) * h + 1.64 * sd * sqrt(n + n^2 / m)`
//!
//! which is enough for 19 of 20 if occupancies do not depend on each other: the upper bound of a
//! prediction from a mean that is itself known from `m` samples only. The residual is what
//! the current hold has left of `h`; one that takes longer than usual is taken to last as long
//! again as it is late, so that a stuck holder closes the door behind it. A part of the budget is
//! kept free beyond that, for a mean that drifts while a waiter waits.
//!
//! Below [`SAMPLES_MIN`] samples nothing is known and everybody is let in. Those who can be seen
//! later on to have come in vain are told then, from the back of the line: their time is up even
//! if all holds ahead are as short as half of them were of late.

use std::time::{Duration, Instant};

use super::quantiles::Samples;
use crate::busy::Quantiles;

/// Nothing is estimated from fewer samples.
pub(crate) const SAMPLES_MIN: u32 = 8;

/// The mean is that of all samples up to here, and then forgets a sample after so many.
const MEMORY: u32 = 32;

/// So many plain samples would give a mean as good as the one that forgets.
const WORTH: u32 = 2 * MEMORY - 1;

/// A single occupancy counts for so many times the mean at most: a pause of the process says
/// nothing about the holds to come.
const OUTLIER: f64 = 8.0;

/// Of a normal distribution, 19 of 20 are no further above the mean.
const DEVIATIONS: f64 = 1.64;

/// The part of an estimate that is added to it for drift.
const DRIFT: f64 = 1.0 / 32.0;

/// See the module.
#[derive(Debug)]
pub(crate) struct Admission {
    /// In seconds.
    mean: f64,
    variance: f64,
    samples: u32,
    /// When the key was last granted here.
    granted: Instant,
    /// Whether somebody has waited ever since.
    awaited: bool,
    holds: Samples,
    waits: Samples,
    /// Half of the holds took about this long, and no bucket of them begins later.
    median: (Duration, Duration),
}

/// What is known when a waiter arrives or waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ahead {
    /// Waiters ahead of it here, the holder included.
    pub(crate) here: usize,
    /// Claims of other processes that the store counted ahead of ours.
    pub(crate) claims: u32,
}

impl Admission {
    /// The key was granted at `granted`, and is wanted by another.
    pub(crate) fn new(granted: Instant) -> Self {
        Self {
            mean: 0.0,
            variance: 0.0,
            samples: 0,
            granted,
            awaited: true,
            holds: Samples::new(),
            waits: Samples::new(),
            median: (Duration::ZERO, Duration::ZERO),
        }
    }

    /// The key was granted to somebody who had waited for `waited`.
    pub(crate) fn granted(&mut self, waited: Duration, now: Instant) {
        if self.awaited {
            self.sample(now);
        }
        self.waits.record(waited);
        (self.granted, self.awaited) = (now, true);
    }

    /// A hold ended after `hold`, with others in line or not.
    pub(crate) fn released(&mut self, hold: Duration, others: bool, now: Instant) {
        self.holds.record(hold);
        if self.samples.is_multiple_of(SAMPLES_MIN)
            && let Some((from, to)) = self.holds.quantile(0.5)
        {
            self.median = ((from + to) / 2, from);
        }
        if !others && self.awaited {
            // Until it is wanted again nobody occupies it.
            self.sample(now);
            self.awaited = false;
        }
    }

    fn sample(&mut self, now: Instant) {
        let mut sample = now.saturating_duration_since(self.granted).as_secs_f64();
        if self.samples >= SAMPLES_MIN {
            sample = sample.min(OUTLIER * self.mean);
        }
        self.samples = self.samples.saturating_add(1);
        let share = 1.0 / f64::from(self.samples.min(MEMORY));
        let off = sample - self.mean;
        self.mean += share * off;
        self.variance = (1.0 - share) * (self.variance + share * off * off);
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
        if self.knows() { self.median.0 } else { Duration::ZERO }
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
        let residual = residual.max(self.median.0.as_secs_f64() * f64::from(ahead.claims));
        let known = f64::from(self.samples.min(WORTH));
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
        (estimate.mul_f64(1.0 + DRIFT) + self.needed(budget) > left).then_some(estimate)
    }

    /// Whether the time of a waiter with `left` is up before its turn comes even if all holds
    /// ahead are short.
    pub(crate) fn is_in_vain(&self, ahead: usize, left: Duration) -> bool {
        let at_least = self.median.1.saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX));
        self.knows() && at_least > left
    }

    /// What must be left of a budget at the grant. One that could not hold two holds bounds the
    /// wait alone.
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

fn quantiles(of: &Samples) -> Option<Quantiles> {
    Some(Quantiles { p50: of.about(0.5)?, p90: of.about(0.9)?, p99: of.about(0.99)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::clock;
    use proptest::prelude::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn ahead(here: usize) -> Ahead {
        Ahead { here, claims: 0 }
    }

    /// A key that was held for each of `holds` in turn, with somebody waiting all along.
    fn after(holds: impl IntoIterator<Item = Duration>) -> (Admission, Instant) {
        let mut now = clock::now();
        let mut admission = Admission::new(now);
        for hold in holds {
            now += hold;
            admission.released(hold, true, now);
            admission.granted(hold, now);
        }
        (admission, now)
    }

    #[test]
    fn nothing_is_refused_before_eight_samples() {
        let (admission, now) = after([ms(10); 7]);
        assert_eq!(admission.estimate(ahead(1_000), now), None);
        assert_eq!(admission.refuses(ahead(1_000), ms(1), ms(1), now), None);
        assert!(!admission.is_in_vain(1_000, ms(1)));
        let (admission, now) = after([ms(10); 8]);
        assert_eq!(admission.estimate(ahead(1_000), now), Some(ms(10_000)));
    }

    #[test]
    fn the_estimate_is_what_the_current_hold_has_left_and_one_mean_for_each_other() {
        let (admission, granted) = after([ms(10); 50]);
        let cases = [(1, 0, 10), (1, 4, 6), (1, 10, 0), (3, 4, 26), (101, 0, 1_010)];
        for (here, age, expected) in cases {
            assert_eq!(admission.estimate(ahead(here), granted + ms(age)), Some(ms(expected)));
        }
    }

    #[test]
    fn a_stuck_holder_closes_the_door_behind_it() {
        let (admission, granted) = after([ms(10); 50]);
        let late = granted + ms(3_000);
        assert_eq!(admission.estimate(ahead(1), late), Some(ms(2_990)));
        assert!(admission.refuses(ahead(2), ms(2_000), ms(2_000), late).is_some());
    }

    #[test]
    fn one_pause_does_not_close_it_for_long() {
        let (mut admission, mut now) = after([ms(10); 50]);
        now += ms(60_000);
        admission.released(ms(60_000), true, now);
        admission.granted(ms(60_000), now);
        let estimate = admission.estimate(ahead(100), now).unwrap();
        assert!(estimate < ms(1_600), "{estimate:?}");
        for _ in 0..64 {
            now += ms(10);
            admission.released(ms(10), true, now);
            admission.granted(ms(10), now);
        }
        let estimate = admission.estimate(ahead(100), now).unwrap();
        assert!(estimate < ms(1_150), "{estimate:?}");
    }

    #[test]
    fn time_in_which_nobody_waited_is_no_occupancy() {
        let (mut admission, mut now) = after([ms(10); 50]);
        for _ in 0..50 {
            now += ms(10);
            admission.released(ms(10), false, now);
            now += ms(10_000);
            admission.granted(Duration::ZERO, now);
        }
        assert_eq!(admission.estimate(ahead(2), now), Some(ms(20)));
    }

    #[test]
    fn the_turns_of_other_processes_count() {
        let mut now = clock::now();
        let mut admission = Admission::new(now);
        for turn in 0..64 {
            // Four holds here, then three other processes have their four.
            now += ms(5);
            admission.released(ms(5), true, now);
            now += if turn % 4 == 3 { ms(60) } else { ms(0) };
            admission.granted(ms(5), now);
        }
        let estimate = admission.estimate(ahead(201), now).unwrap();
        assert!((ms(3_500)..ms(5_500)).contains(&estimate), "{estimate:?}");
        assert!(admission.median_hold() < ms(6));
    }

    #[test]
    fn claims_ahead_at_the_store_take_a_hold_each() {
        let (admission, now) = after([ms(10); 50]);
        let estimate = admission.estimate(Ahead { here: 1, claims: 100 }, now).unwrap();
        assert!((ms(870)..ms(1_130)).contains(&estimate), "{estimate:?}");
    }

    #[test]
    fn a_budget_must_hold_the_hold_too_unless_that_is_hopeless() {
        let (admission, now) = after([ms(100); 50]);
        let needed = admission.needed(ms(1_000));
        assert!((ms(87)..ms(113)).contains(&needed), "{needed:?}");
        assert_eq!(admission.needed(ms(150)), Duration::ZERO);
        assert!(admission.refuses(ahead(2), ms(250), ms(1_000), now).is_some());
        assert!(admission.refuses(ahead(2), ms(350), ms(1_000), now).is_none());
    }

    proptest! {
        /// Who is let in waits no longer than its budget, in 19 of 20 cases.
        #[test]
        fn those_who_are_let_in_are_served_in_time(
            mean_us in 100_u64..50_000,
            spread in 0.0..0.9_f64,
            seed: u64,
            budget_ms in 500_u64..5_000,
        ) {
            let mut random = fastrand_like(seed);
            let mut hold = || {
                let unit = random() * 2.0 - 1.0;
                Duration::from_micros(mean_us).mul_f64(1.0 + spread * unit)
            };
            let (mut late, mut let_in) = (0, 0);
            for _ in 0..100 {
                let (admission, now) = after((0..64).map(|_| hold()));
                let budget = ms(budget_ms);
                // The longest line that is let in.
                let is_in = |&here: &usize| {
                    admission.refuses(ahead(here), budget, budget, now).is_none()
                };
                let here = (1..20).map(|power| 1 << power).take_while(is_in).last();
                let Some(half) = here else { continue };
                let here = (half..2 * half).step_by(half.div_ceil(64)).take_while(is_in).last();
                let_in += 1;
                let wait: Duration = (0..here.unwrap_or(half)).map(|_| hold()).sum();
                late += usize::from(wait > budget);
            }
            // One of 20, and what may come on top by chance.
            prop_assert!(late * 6 <= let_in.max(20), "{late} of {let_in}");
        }
    }

    /// SplitMix64, by Sebastiano Vigna (2015), as numbers from 0 to 1.
    fn fastrand_like(mut state: u64) -> impl FnMut() -> f64 {
        move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
        }
    }
}
