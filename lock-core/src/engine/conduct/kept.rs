//! A busy key, as the conductor sees it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use crate::key::Key;

/// A key as a conductor looks after it, and its register finds it.
pub(crate) trait Kept: Send + Sync + 'static {
    /// Whether it is that of all who want this key.
    fn is_of(&self, key: &Key) -> bool;

    /// That of the key, in the register of its client.
    fn hash(&self) -> u64;

    /// When it is looked at next, in the conductor's nanoseconds. Written under its mutex alone.
    fn watched(&self) -> &AtomicU64;

    /// The conductor looks. `now` is the time at which it began to look at keys, so less time may
    /// seem to have passed than has. Nothing more is promised for that.
    fn look(self: &Arc<Self>, now: Instant);

    /// Its callers have had it for [`LOOK_AFTER`](super::LOOK_AFTER): the conductor looks after it
    /// now.
    fn grows_up(&self);

    /// Work for this key ended in a panic, under the baton perhaps.
    fn fails(self: &Arc<Self>);

    /// There is nobody to keep what this key promises.
    fn is_unserved(self: &Arc<Self>, why: &io::Error);

    /// The conductor is gone with its runtime. A waiter in another runtime starts it there; a hold
    /// without waiters ends with its lease.
    fn is_deserted(self: &Arc<Self>);
}
