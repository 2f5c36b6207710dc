//! What a call changed, for those who watch a service: counted outside of the mutex.

use std::time::Duration;

use smallvec::SmallVec;

use crate::proto::LossReason;

/// At most one hold begins, and one ends, in a call, unless they are those of readers.
#[derive(Debug)]
pub(crate) struct Changes {
    /// So many holds began.
    pub(crate) granted: u32,
    /// How it got here, if another claim or guard handed it on.
    pub(crate) handed_on: Option<HandOff>,
    /// Holds that ended.
    pub(crate) ended: SmallVec<[Ended; 1]>,
    /// A guard went, and its hold goes on under another one.
    pub(crate) goes_on: bool,
}

/// Between whom a lock was handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandOff {
    /// Guards of this process, without the store.
    Local,
    /// Claims, by the store.
    Remote,
}

/// The end of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Since its grant.
    pub(crate) held_for: Duration,
    /// Why, if it was not released.
    pub(crate) lost: Option<LossReason>,
}

impl Changes {
    /// One more hold ended, if it did.
    #[inline]
    pub(super) fn end(&mut self, ended: Option<Ended>) {
        if let Some(ended) = ended {
            self.ended.push(ended);
        }
    }

    pub(crate) const fn none() -> Self {
        Self { granted: 0, handed_on: None, ended: SmallVec::new_const(), goes_on: false }
    }
}
