//! The one place of this crate that reads a clock. It is the runtime's, so that tests can pause
//! it.

use tokio::time::Instant;

pub(super) fn now() -> Instant {
    Instant::now()
}
