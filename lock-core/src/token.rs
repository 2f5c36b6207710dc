//! The number that lets a resource refuse a stale holder.

use std::fmt;

/// A fencing token: strictly grows with every grant of a key, one per holder, never reused.
///
/// Send it with every write, and let the resource refuse a write whose token is smaller than one
/// that it has seen. Of the stores in memory and on Redis it is below 2^53, so
/// it survives a trip through a JSON number; of ZooKeeper up to the 512th election of a leader.
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
