//! The wall clock, for fencing tokens alone: they must grow over restarts, and no time is computed
//! from it.

#![allow(clippy::disallowed_methods)]

use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds since 1970.
pub(crate) fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| u64::try_from(since.as_micros()).unwrap_or(1))
}
