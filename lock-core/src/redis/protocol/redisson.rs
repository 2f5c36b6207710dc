//! The names of a lock in the layout of Redisson's `RLock` (read from Redisson 4.7, and compared with
//! it by tests/tests/interop.rs).

use crate::key::Key;

/// Where a release is told, before the name of the lock.
pub(in crate::redis) const CHANNELS: &str = "redisson_lock__channel";

/// Where an `RFencedLock` counts its tokens, before the name of the lock.
const COUNTERS: &str = "redisson_lock_token";

/// The names of one lock.
#[derive(Debug, Clone)]
pub(in crate::redis) struct RLock(Key);

impl RLock {
    pub(in crate::redis) fn new(key: &Key) -> Self {
        Self(key.clone())
    }

    pub(in crate::redis) fn key(&self) -> &Key {
        &self.0
    }

    /// The hash: who holds it, and how often. A name has no braces, so Redisson puts them around it
    /// where it makes another of it.
    pub(in crate::redis) fn lock(&self) -> &str {
        self.0.as_str()
    }

    /// The channel on which a release is told.
    pub(in crate::redis) fn channel(&self) -> String {
        format!("{CHANNELS}:{{{}}}", self.0)
    }

    /// The last token that an `RFencedLock` of this name gave. It is there where one was used.
    pub(in crate::redis) fn counter(&self) -> String {
        format!("{COUNTERS}:{{{}}}", self.0)
    }

    /// Our own claims that wait, each with the time until which it counts as alive.
    pub(in crate::redis) fn waiting(&self) -> String {
        format!("lock:{{{}}}:waiting", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_be_a_hash_tag_is_none() {
        let rlock = RLock::new(&Key::new("order:4{2}").unwrap());
        assert_eq!(rlock.lock(), "order:4%7B2%7D");
        assert_eq!(rlock.channel(), "redisson_lock__channel:{order:4%7B2%7D}");
        assert_eq!(rlock.counter(), "redisson_lock_token:{order:4%7B2%7D}");
    }
}
