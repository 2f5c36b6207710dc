//! The store that the suite is run on.

use std::fmt::Debug;
use std::future::ready;
use std::time::Duration;

use super::any::AnyBackend;
pub use crate::backend::BoxFuture;
use crate::backend::Mode;

/// One store, seen by several processes: what the [`conformance`](super::conformance) suite runs
/// on. It works on Tokio's paused clock, and in real time. One property blocks the runtime of the
/// test: a server that the test runs needs a thread of its own.
pub trait Subject: Debug + Send + Sync {
    /// Opens the store as one more process would: a connection of its own to the same data.
    fn open(&self) -> BoxFuture<'_, AnyBackend>;

    /// The mode of the claims: one in which a key has one holder at a time (default:
    /// [`Mode::Exclusive`]). A permit of one is another.
    fn mode(&self) -> Mode {
        Mode::Exclusive
    }

    /// The lease of the claims whose lease is meant to end (default 1 s). In real time: long
    /// enough that a stall of the machine does not end it.
    fn lease(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// How much later than it should a thing may happen before a property fails (default 5 s).
    /// Nothing waits so long unless it fails.
    fn slack(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// Ends a process without a farewell; its claims were dropped already. By default it drops
    /// the backend.
    fn kill(&self, process: AnyBackend) {
        drop(process);
    }

    /// The things that the store still keeps beyond what its documentation says, once nobody holds
    /// or waits any more: one line for people each. By default nothing is looked at.
    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(ready(Vec::new()))
    }
}
