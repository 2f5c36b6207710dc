//! The ground below the seam: what a store and the engine both stand on. It knows nothing above it.
//!
//! - [`clock`]: the one place that reads the time, with what the machine was [`suspended`] for;
//!   alarms, and chance.
//! - [`wall`]: the wall clock, for tokens.
//! - [`timeout`]: bounds requests, whoever polls them.
//! - [`pauses`]: pauses between tries.
//! - [`plus`]: instants that lie ahead.
//! - [`background`]: whether code is the conductor's.
//! - [`foreign`]: calling what is not ours, whose panic must not go on.
//! - [`own_thread`]: a thread with a runtime, or an error and nothing left of it.
//! - `looks`: a waker, for tests.

pub(crate) mod background;
pub(crate) mod clock;
pub(crate) mod foreign;
#[cfg(test)]
pub(crate) mod looks;
pub(crate) mod own_thread;
mod pauses;
mod plus;
pub(crate) mod suspended;
pub(crate) mod timeout;
pub(crate) mod wall;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use pauses::Pauses;
pub(crate) use pauses::{FAULT_PAUSES, retry_pause};
pub(crate) use plus::Plus;

/// A panic under one of our mutexes leaves data that is good enough: nothing in there is half
/// done at a point where foreign code runs.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
