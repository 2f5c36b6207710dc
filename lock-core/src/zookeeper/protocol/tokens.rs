//! The tokens of a store on its own: they come from the transactions of its nodes.

use crate::token::TokenBlock;

/// The bits of a token that count the hand-offs of one claim; the others are the transaction that
/// created its node.
const HANDOFF_BITS: u32 = 12;

/// Transactions from here on leave no room for the hand-offs in 63 bits: half a million elections
/// of a leader.
pub(crate) const CZXID_END: u64 = 1 << (63 - HANDOFF_BITS);

/// The tokens of a claim whose node was created by the transaction `czxid`: as many as the claim
/// asked for, and never those of the next transaction.
pub(crate) fn tokens(czxid: u64, count: u32) -> TokenBlock {
    let first = czxid << HANDOFF_BITS;
    let most = (1 << HANDOFF_BITS) - 1;
    TokenBlock::new(first, first + u64::from(count.saturating_sub(1)).min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokens_of_one_claim_are_below_those_of_the_next() {
        let (mut one, two) = (tokens(0x1_0000_0007, u32::MAX), tokens(0x1_0000_0008, 1));
        assert_eq!(one.left(), 4_096);
        assert_eq!(one.first(), Some(0x1_0000_0007 << 12));
        assert!(one.last() < two.first());
        assert_eq!(two.left(), 1);
        assert_eq!(one.take(), Some(0x1_0000_0007 << 12));
        assert_eq!(one.left(), 4_095, "hand-offs after the grant itself");
        assert!(tokens(CZXID_END - 1, u32::MAX).last() < Some(1 << 63));
    }
}
