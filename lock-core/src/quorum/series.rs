//! The counts of one member; none without the feature `metrics`.

#![cfg_attr(not(feature = "metrics"), allow(clippy::unused_self))]

use std::time::Duration;

/// The series of one member, labelled with its name.
#[derive(Debug)]
pub(super) struct Series {
    #[cfg(feature = "metrics")]
    of: crate::metrics::series::OfMember,
}

impl Series {
    pub(super) fn new(name: &str) -> Self {
        let _ = name;
        Self {
            #[cfg(feature = "metrics")]
            of: crate::metrics::series::OfMember::new(name),
        }
    }

    /// Notes whether it may be asked for locks now.
    pub(super) fn is_good(&self, is_good: bool) {
        let _ = is_good;
        #[cfg(feature = "metrics")]
        self.of.is_good(is_good);
    }

    /// It answered a request after this time.
    pub(super) fn answered(&self, took: Duration) {
        let _ = took;
        #[cfg(feature = "metrics")]
        self.of.answered(took);
    }

    pub(super) fn quarantined(&self) {
        #[cfg(feature = "metrics")]
        self.of.quarantined();
    }

    pub(super) fn repaired(&self) {
        #[cfg(feature = "metrics")]
        self.of.repaired();
    }
}
