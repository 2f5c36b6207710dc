//! Durations of late, in buckets. There are eight to each doubling from a microsecond to a day, so
//! that a bucket's middle is within a sixteenth of what fell into it.

use std::time::Duration;

/// Bits within one doubling.
const SUB_BITS: u32 = 3;
const SUBS: u64 = 1 << SUB_BITS;

/// A day is less than 2^37 microseconds.
const BUCKETS: usize = 35 << SUB_BITS;

/// When so many have come, what was before counts half.
const MEMORY: u32 = 512;

/// The durations of late.
#[derive(Debug)]
pub(crate) struct Samples {
    buckets: [u16; BUCKETS],
    total: u32,
}

impl Samples {
    pub(crate) const fn new() -> Self {
        Self { buckets: [0; BUCKETS], total: 0 }
    }

    pub(crate) fn record(&mut self, sample: Duration) {
        if self.total >= MEMORY {
            self.buckets.iter_mut().for_each(|count| *count /= 2);
            self.total = self.buckets.iter().map(|&count| u32::from(count)).sum();
        }
        self.buckets[bucket(sample)] += 1;
        self.total += 1;
    }

    /// The bucket, from and to, that a share `q` of the samples does not exceed; `None` without
    /// any sample.
    pub(crate) fn quantile(&self, q: f64) -> Option<(Duration, Duration)> {
        let rank = ((q * f64::from(self.total)).ceil() as u32).max(1);
        let mut below = 0;
        let at = self.buckets.iter().position(|&count| {
            below += u32::from(count);
            below >= rank
        })?;
        Some((lower(at), lower(at + 1)))
    }

    /// The middle of that bucket.
    pub(crate) fn about(&self, q: f64) -> Option<Duration> {
        self.quantile(q).map(|(from, to)| (from + to) / 2)
    }
}

fn bucket(sample: Duration) -> usize {
    let micros = u64::try_from(sample.as_micros()).unwrap_or(u64::MAX);
    if micros < SUBS {
        return micros as usize;
    }
    let doubling = micros.ilog2() - SUB_BITS;
    let sub = (micros >> doubling) - SUBS;
    let index = (u64::from(doubling) + 1) * SUBS + sub;
    usize::try_from(index).map_or(BUCKETS - 1, |index| index.min(BUCKETS - 1))
}

/// The shortest duration of a bucket.
fn lower(bucket: usize) -> Duration {
    let bucket = bucket as u64;
    if bucket < SUBS {
        return Duration::from_micros(bucket);
    }
    Duration::from_micros((SUBS + bucket % SUBS) << (bucket / SUBS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_sample_lies_in_its_bucket(micros in 0..Duration::from_secs(86_400).as_micros() as u64) {
            let at = bucket(Duration::from_micros(micros));
            prop_assert!(lower(at) <= Duration::from_micros(micros));
            prop_assert!(Duration::from_micros(micros) < lower(at + 1));
            prop_assert!(at < BUCKETS - 1 || micros > 60_000_000_000);
        }

        #[test]
        fn quantiles_are_within_a_sixteenth(mut all in prop::collection::vec(16_u64..10_000_000, 1..500)) {
            let mut samples = Samples::new();
            all.iter().for_each(|&micros| samples.record(Duration::from_micros(micros)));
            all.sort_unstable();
            for q in [0.5, 0.9, 0.99] {
                let rank = ((q * all.len() as f64).ceil() as usize).max(1);
                let (truth, about) = (all[rank - 1] as f64, samples.about(q).unwrap().as_micros() as f64);
                prop_assert!((about - truth).abs() <= truth / 16.0 + 1.0, "{q}: {about} for {truth}");
            }
        }
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut samples = Samples::new();
        assert_eq!(samples.about(0.5), None);
        (0..MEMORY).for_each(|_| samples.record(Duration::from_secs(1)));
        (0..2 * MEMORY).for_each(|_| samples.record(Duration::from_millis(1)));
        assert!(samples.about(0.9).unwrap() < Duration::from_millis(2), "{samples:?}");
    }

    #[test]
    fn the_longest_and_the_shortest_have_a_bucket() {
        let mut samples = Samples::new();
        samples.record(Duration::ZERO);
        samples.record(Duration::MAX);
        assert_eq!(samples.quantile(0.5), Some((Duration::ZERO, Duration::from_micros(1))));
        assert!(samples.about(1.0).unwrap() > Duration::from_secs(50_000));
    }
}
