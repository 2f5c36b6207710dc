//! The next block of fencing tokens to reserve, by the clock of the store.
//!
//! A block ends at the store's wall clock. It never runs ahead of that by more than it has tokens,
//! unless the clock was set back. So a store that lost its data begins above every token it ever
//! gave. What guards a key against a clock that is set back is a mark of the highest token given;
//! Redis has one for all keys of a server or of a slot. Blocks that begin behind such a mark are
//! small, so that the clock catches up while they are reserved.
//!
//! The count begins with 2020 and grows by eight a microsecond: more than one process can hand a
//! lock on, and below 2^53 until the year 2055.
//!
//! A renewal's range may begin with tokens that the claim has already, and the cohort goes on
//! behind those that it has used (`TokenBlock::extend`). A store may have a fixed number of tokens
//! for a claim. Its renewals carry none then: the cohort notes that the claim is *spent*, hands on
//! what is left, withdraws it and opens a new one right behind.

use std::time::Duration;

use crate::token::TokenBlock;

/// The wall clock at which tokens begin: 2020-01-01 in microseconds since 1970.
pub(crate) const EPOCH_US: u64 = 1_577_836_800_000_000;

/// Tokens per microsecond: more than a lock can be handed on in one process, and few enough that
/// a token stays below 2^53 until the year 2055.
pub(crate) const PER_US: u64 = 8;

/// A block that is ahead of the clock by less is not taken for a clock that was set back.
pub(crate) const AHEAD_MAX: u64 = 1_000_000 * PER_US;

/// The most tokens of a block that begins ahead of a clock that was set back, 64 µs of it.
///
/// Some are needed, so that not each hand-off in a process is a request. The clock gains on them
/// where fewer than 15,600 blocks a second are reserved. With more tokens a busy key would run away
/// from it, and a store that lost its data much later would take tokens back by all of that.
pub(crate) const AHEAD_TOKENS: u64 = 512;

/// The reading of a wall clock in tokens, 8 a microsecond since 2020. It is given in microseconds
/// since 1970.
#[must_use]
pub fn ticks(wall_us: u64) -> u64 {
    wall_us.saturating_sub(EPOCH_US).saturating_mul(PER_US)
}

/// The time since the first token of a block was reserved, by the clock of its store, which reads `clock`
/// in [`ticks`] now. It is longer by the size of the block, 131 ms at most.
pub(crate) fn age(token: u64, clock: u64) -> Duration {
    Duration::from_micros(clock.saturating_sub(token) / PER_US)
}

/// Reserves up to `count` tokens (at least one) after `last`, the last one ever reserved for this
/// key as far as the store knows, by the store's wall clock in [`ticks`].
///
/// A block ends at the clock, not after it: so a store that lost its data, and begins at its clock
/// again, begins above every token it ever gave. Blocks run ahead of the clock only when it was set
/// back by over a second, and have 512 tokens at most then. When it was set back by less, tokens
/// come one by one until it has caught up.
#[must_use]
pub fn reserve(last: Option<u64>, clock: u64, count: u32) -> TokenBlock {
    let count = u64::from(count.max(1));
    match last {
        None => TokenBlock::new(clock, clock),
        Some(last) if last > clock + AHEAD_MAX => {
            TokenBlock::new(last + 1, last + count.min(AHEAD_TOKENS))
        }
        Some(last) => {
            let first = (last + 1).max((clock + 1).saturating_sub(count));
            TokenBlock::new(first, first.max(clock))
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
                prop_assert!(block.first().unwrap() > last.unwrap_or(0));
                prop_assert!(block.left() >= 1 && block.left() <= u64::from(count.max(1)));
                prop_assert_eq!(block.last(), Some(now));
                // Lost data: the next block starts above everything given so far.
                prop_assert!(reserve(None, now + 1, count).first() > block.last());
                last = block.last();
            }
        }

        #[test]
        fn a_clock_that_was_set_back_does_not_take_tokens_back(back in 1_u64..2_000, count: u16) {
            let last = 2 * AHEAD_MAX;
            let block = reserve(Some(last), last - back, count.into());
            prop_assert_eq!((block.first(), block.left()), (Some(last + 1), 1));
            let block = reserve(Some(last), back, count.into());
            let left = u64::from(count).clamp(1, AHEAD_TOKENS);
            prop_assert_eq!((block.first(), block.left()), (Some(last + 1), left));
        }
    }

    #[test]
    fn tokens_count_eight_a_microsecond_from_2020_on() {
        let second = 1_000_000;
        let counts = [0, EPOCH_US, EPOCH_US + 1, EPOCH_US + second].map(ticks);
        assert_eq!(counts, [0, 0, 8, 8 * second]);
        assert_eq!(age(8, 8 * second), Duration::from_micros(second - 1));
        assert_eq!(age(8 * second, 8), Duration::ZERO);
        // A clock that was set back by a second is waited for, and by more is not.
        let (clock, last) = (5 * second, 13 * second);
        assert_eq!(reserve(Some(last), clock, 3), TokenBlock::new(last + 1, last + 1));
        assert_eq!(reserve(Some(last), clock - 1, 3), TokenBlock::new(last + 1, last + 3));
    }

    /// Each millisecond a claim asks for all the tokens that it may have, as a hot key's does.
    #[test]
    fn a_clock_that_was_set_back_catches_up_however_much_is_asked_for() {
        let mut clock = 1_000_000;
        let ahead = 2 * AHEAD_MAX;
        let mut last = clock + ahead;
        for _ in 0..1_000 {
            clock += 1_000 * PER_US;
            let block = reserve(Some(last), clock, 1 << 20);
            assert!(block.first() > Some(last));
            last = block.last().unwrap();
        }
        assert!(last < clock + ahead - ahead / 8, "{} tokens ahead", last - clock);
    }

    #[test]
    fn a_token_stays_below_2_to_the_53_for_decades() {
        let in_2055_us = 85 * 365 * 24 * 3_600 * 1_000_000;
        assert!(ticks(in_2055_us) < 1 << 53);
    }
}
