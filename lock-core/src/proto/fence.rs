//! Fencing tokens reserved in blocks, so that local hand-offs each get their own without a round
//! trip.

/// A block of unused tokens, handed out from the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FenceRange {
    next: u64,
    last: u64,
}

impl FenceRange {
    /// The tokens from `first` to `last`, both included; empty when `last` is below `first`.
    #[must_use]
    pub const fn new(first: u64, last: u64) -> Self {
        Self { next: first, last }
    }

    /// No token at all.
    #[must_use]
    pub const fn empty() -> Self {
        Self { next: 1, last: 0 }
    }

    /// How many are left.
    #[must_use]
    pub const fn left(&self) -> u64 {
        if self.last < self.next { 0 } else { self.last - self.next + 1 }
    }

    /// The lowest unused token, which the next [`take`](Self::take) gives.
    #[must_use]
    pub const fn first(&self) -> Option<u64> {
        if self.left() == 0 { None } else { Some(self.next) }
    }

    /// The highest of the block, used or not; `None` for an empty block.
    #[must_use]
    pub const fn last(&self) -> Option<u64> {
        if self.left() == 0 { None } else { Some(self.last) }
    }

    /// Takes the lowest unused token.
    pub fn take(&mut self) -> Option<u64> {
        let token = self.first()?;
        self.next += 1;
        Some(token)
    }
}

/// Reserves up to `count` tokens (at least one) after `last`, the last one ever reserved for this
/// key as far as the store knows, by the store's wall clock in microseconds.
///
/// A block ends at `now`, never after it: so a store that lost its data, and begins at its clock
/// again, begins above every token it ever gave. Tokens accrue at one per microsecond, which no
/// lock is granted as often as. Only when the clock was set back do blocks run ahead of it.
pub(crate) fn reserve(last: Option<u64>, now_us: u64, count: u32) -> FenceRange {
    let count = u64::from(count.max(1));
    match last {
        None => FenceRange::new(now_us, now_us),
        Some(last) if last > now_us => FenceRange::new(last + 1, last + count),
        Some(last) => {
            let first = (last + 1).max((now_us + 1).saturating_sub(count));
            FenceRange::new(first, first.max(now_us))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_block_is_above_all_before_it_and_not_ahead_of_a_clock_that_runs(
            steps in prop::collection::vec((1_u64..5_000, 0_u32..2_000), 1..50),
        ) {
            let (mut now, mut last) = (1_000_000, None);
            for (step, count) in steps {
                now += step;
                let block = reserve(last, now, count);
                prop_assert!(block.next > last.unwrap_or(0));
                prop_assert!(block.left() >= 1 && block.left() <= u64::from(count.max(1)));
                prop_assert_eq!(block.last, now);
                // Lost data: the next block starts above everything given so far.
                prop_assert!(reserve(None, now + 1, count).next > block.last);
                last = Some(block.last);
            }
        }

        #[test]
        fn a_clock_that_was_set_back_does_not_take_tokens_back(back in 0_u64..2_000, count: u16) {
            let block = reserve(Some(5_000), 5_000 - back, count.into());
            prop_assert_eq!(block.next, 5_001);
        }
    }

    #[test]
    fn a_block_gives_each_token_once_and_in_order() {
        let mut block = FenceRange::new(7, 9);
        assert_eq!(block.left(), 3);
        assert_eq!([block.take(), block.take(), block.take()], [Some(7), Some(8), Some(9)]);
        assert_eq!(block.take(), None);
        assert_eq!(block.left(), 0);
        assert_eq!(FenceRange::empty().take(), None);
    }
}
