//! Changes that a call made, for those who watch a service: counted outside of the mutex.

use std::time::Duration;

use crate::lock_name::LockName;
use crate::proto::LossReason;

/// At most one hold begins, and one ends, in a call, unless they are those of readers.
#[derive(Debug)]
pub(crate) struct Changes {
    /// So many holds began.
    pub(crate) granted: u32,
    /// So many of them by a hand-off of another guard of this process, without the store.
    pub(crate) handed_on_here: u32,
    /// One of them by a hand-off of another claim, by the store.
    pub(crate) handed_on_there: bool,
    /// A hold that ended.
    ended: Option<Ended>,
    /// On the heap, as most calls end one at most.
    others: Option<Box<Others>>,
    /// A guard went, and its hold goes on under another one.
    pub(crate) goes_on: bool,
}

/// Holds that ended in the same call.
#[derive(Debug, Default)]
struct Others {
    ended: Vec<Ended>,
}

/// The end of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Since its grant.
    pub(crate) held_for: Duration,
    /// Why, if it was not released.
    pub(crate) lost: Option<LossReason>,
    #[cfg_attr(not(feature = "metrics"), allow(dead_code, reason = "nobody counts"))]
    pub(crate) name: LockName,
}

impl Changes {
    pub(crate) const fn none() -> Self {
        let (granted, handed_on_here, handed_on_there, goes_on) = (0, 0, false, false);
        let (ended, others) = (None, None);
        Self { granted, handed_on_here, handed_on_there, ended, others, goes_on }
    }

    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.granted > 0 || self.handed_on_there || self.ended.is_some() || self.goes_on
    }

    /// One more hold ended, if it did.
    #[inline]
    pub(super) fn end(&mut self, ended: Option<Ended>) {
        match (ended, &self.ended) {
            (Some(ended), Some(_)) => self.others.get_or_insert_default().ended.push(ended),
            (Some(_), None) => self.ended = ended,
            (None, _) => {}
        }
    }

    /// Holds that ended.
    #[inline]
    pub(crate) fn ended(&self) -> impl Iterator<Item = &Ended> {
        self.ended.iter().chain(self.others.iter().flat_map(|others| &others.ended))
    }
}
