//! The number that lets a resource refuse a stale holder, and blocks of them.

use std::fmt;

/// A fencing token: strictly grows with every grant of a key, one per holder, never reused.
///
/// Send it with every write, and let the resource refuse a write whose token is smaller than one
/// that it has seen. A token of the stores in memory and on Redis is below 2^53, so it survives a
/// trip through a JSON number. A token of ZooKeeper is so up to the 512th election of a leader, one
/// of etcd up to the 2^41st write to the cluster.
///
/// The idea is from Martin Kleppmann, "How to do distributed locking" (2016).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    pub(crate) fn new(value: u64) -> Self {
        Self(value)
    }

    /// The token of a number that a store of records reads back, see
    /// [`RecordStore`](crate::idempotency::RecordStore). A number of your own is no token.
    #[cfg(feature = "idempotency")]
    #[must_use]
    pub const fn from_stored(value: u64) -> Self {
        Self(value)
    }

    /// The number itself.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl From<FencingToken> for i64 {
    /// For stores without an unsigned type; nothing is lost, as a token stays below 2^63.
    fn from(token: FencingToken) -> Self {
        token.0.try_into().unwrap_or(i64::MAX)
    }
}

/// A block of unused tokens, handed out from the lowest. A store reserves them with a grant, so
/// that each hand-off in a process has a token of its own without a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBlock {
    next: u64,
    last: u64,
}

impl TokenBlock {
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

    /// Goes on to where `more` ends; what was taken stays so.
    pub(crate) fn extend(&mut self, more: Self) {
        (self.next, self.last) = (self.next.max(more.next), self.last.max(more.last));
    }

    /// Takes the lowest unused token.
    pub fn take(&mut self) -> Option<u64> {
        let token = self.first()?;
        self.next += 1;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_gives_each_token_once_and_in_order() {
        let mut block = TokenBlock::new(7, 9);
        assert_eq!(block.left(), 3);
        assert_eq!([block.take(), block.take(), block.take()], [Some(7), Some(8), Some(9)]);
        assert_eq!(block.take(), None);
        assert_eq!(block.left(), 0);
        assert_eq!(TokenBlock::empty().take(), None);
    }
}
