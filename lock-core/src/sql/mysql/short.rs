//! The answer of a statement in one number.
//!
//! MySQL has no `RETURNING`, and MariaDB has none for updates. In both the answer to a statement
//! holds the last `LAST_INSERT_ID(…)` in it, which is 63 bits here, from the highest: the last
//! token (56), the power of two that says how many end with it (5), whether the version is not the
//! one that the token says, and whether somebody waits.

use crate::backend::register::tokens::{EPOCH_US, PER_US};
use crate::sql::dialect::Taken;
use crate::token::TokenBlock;

/// A token from this on fits no answer; the long way goes on.
pub(super) const TOKEN_END: u64 = 1 << 56;

/// A block is a power of two of tokens, and this one at most.
pub(super) const POWER_MAX: u32 = 20;

/// Packs an answer, of what SQL says of the token, the power, and the two flags.
pub(super) fn packed(token: &str, power: &str, is_ahead: &str, is_wanted: &str) -> String {
    format!("({token}) * 128 + ({power}) * 4 + ({is_ahead}) * 2 + ({is_wanted})")
}

/// The version of a row after a grant of which this is the last token, in SQL: the microsecond of
/// the token. A version that is ahead of it, as after the clock was set back, goes on by one.
pub(super) fn version_of(token: &str) -> String {
    format!("({token}) DIV {PER_US} + {EPOCH_US}")
}

/// The largest power of two that is not more than this.
pub(super) fn power_of(tokens_max: u32) -> u32 {
    tokens_max.max(1).ilog2().min(POWER_MAX)
}

/// The answer that a number holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Short {
    pub(super) taken: Taken,
    /// The version is another one, and greater.
    pub(super) is_ahead: bool,
}

impl Short {
    /// Nothing, where nothing was written.
    pub(super) fn of(packed: u64) -> Option<Self> {
        if packed == 0 {
            return None;
        }
        let (last, power) = (packed >> 7, packed >> 2 & 31);
        let version = i64::try_from(last / PER_US + EPOCH_US).unwrap_or(i64::MAX);
        let tokens = TokenBlock::new((last + 1).saturating_sub(1 << power), last);
        let wanted = packed & 1 == 1;
        Some(Self { taken: Taken { version, tokens, wanted }, is_ahead: packed & 2 == 2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_tokens_version_and_who_waits() {
        assert!(Short::of(0).is_none());
        let last = (TOKEN_END - 1) / PER_US * PER_US;
        let short = Short::of(last << 7 | 3 << 2 | 2 | 1).unwrap();
        assert_eq!((short.taken.tokens.last(), short.taken.tokens.left()), (Some(last), 8));
        assert!(short.is_ahead && short.taken.wanted);
        assert_eq!(u64::try_from(short.taken.version).unwrap(), last / PER_US + EPOCH_US);
        let plain = Short::of(800 << 7).unwrap();
        assert_eq!((plain.taken.tokens.first(), plain.taken.tokens.left()), (Some(800), 1));
        assert!(!plain.is_ahead && !plain.taken.wanted);
    }

    #[test]
    fn a_block_is_a_power_of_two() {
        let powers = [0, 1, 2, 3, 5, 1 << 20, u32::MAX].map(power_of);
        assert_eq!(powers, [0, 0, 1, 1, 2, 20, 20]);
    }
}
