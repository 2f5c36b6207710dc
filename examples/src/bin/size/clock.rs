//! The one place of this program that reads a clock.
#![allow(clippy::disallowed_methods)]

use tokio::time::Instant;

pub(crate) fn now() -> Instant {
    Instant::now()
}
