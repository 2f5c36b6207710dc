//! The record store that the suite is run on.

use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use crate::idempotency::{RecordId, RecordStore};
use crate::test_util::BoxFuture;

/// One record store, seen by several processes. It works on Tokio's paused clock, and in real
/// time.
pub trait RecordSubject: Debug + Send + Sync {
    /// Opens the store as one more process would: a connection of its own to the same data.
    fn open(&self) -> BoxFuture<'_, Arc<dyn RecordStore>>;

    /// The life of the records that are meant to end (default 1 s). In real time: long enough
    /// that a stall of the machine does not end it.
    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// How much later than it should a thing may happen before a property fails (default 5 s).
    /// Nothing waits so long unless it fails.
    fn slack(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// Puts the `n`th thing that is no record, or not a whole one, in the place of the record of
    /// `id`, which is in flight or completed. Returns what the thing is; `None` if there are no
    /// more. By default there is none, as for a store that keeps no bytes.
    fn damage(&self, id: RecordId, n: usize) -> BoxFuture<'_, Option<String>> {
        let _ = (id, n);
        Box::pin(ready(None))
    }

    /// The content of the place of the record of `id`, in any form that tells two things apart.
    /// Only asked for after [`damage`](Self::damage).
    fn dump(&self, id: RecordId) -> BoxFuture<'_, Vec<u8>> {
        let _ = id;
        Box::pin(ready(Vec::new()))
    }

    /// The things that the store keeps now: one line for people each, with the id of the record
    /// where it is of one. By default nothing is looked at.
    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(ready(Vec::new()))
    }
}
