//! Who polls a key's driver: one at a time, and nobody for nothing.
//!
//! Several may poll it: each task that waits for the key, and the conductor. What its requests wait
//! for wakes the baton. The first wake has somebody told; whoever comes then and takes the baton
//! polls, and polls again for what came meanwhile. So no wake is lost, and no two poll at once.

use std::sync::atomic::{AtomicU8, Ordering};

/// Somebody polls.
const POLLED: u8 = 1;
/// There is something to poll for.
const WOKEN: u8 = 2;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Baton(AtomicU8);

impl Baton {
    /// There is something to poll for. Whether somebody has to be told: nobody polls, who would
    /// look again, and nobody was told before.
    pub(super) fn wake(&self) -> bool {
        self.0.fetch_or(WOKEN, Ordering::AcqRel) == 0
    }

    /// Whether there is something to poll for, and nobody who does.
    pub(super) fn lies(&self) -> bool {
        self.0.load(Ordering::Acquire) == WOKEN
    }

    /// Takes it, if there is something to poll for and nobody who does.
    pub(super) fn take(&self) -> bool {
        self.0.compare_exchange(WOKEN, POLLED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Lays it down after a poll; `false` if something came meanwhile, and it is to be polled
    /// again.
    pub(super) fn lay_down(&self) -> bool {
        let down = self.0.compare_exchange(POLLED, 0, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !down {
            // Only the one who polls takes `WOKEN` away from here.
            self.0.store(POLLED, Ordering::Release);
        }
        down
    }
}
