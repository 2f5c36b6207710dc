//! The engine: what is done for the keys of a client. Nothing else spawns, selects and sleeps for
//! them; stores do at their [`Home`](crate::backend::io::Home).
//!
//! Its rooms, each of which knows those below it alone:
//!
//! - [`election`]: one leader, and those who follow. [`multi`]: several keys at once.
//! - [`ask`]: the futures that wait for a key, and questions to the store.
//! - [`hold`]: what a caller has in hand.
//! - [`key`]: a busy key of this process, its driver, and what all keys of a client share.
//! - [`conduct`]: who polls a key, and when: the conductor.
//! - [`observe`]: what those who watch a service see.
//!
//! # Traps
//!
//! They shaped the engine. What is done about each:
//!
//! - A worker of Tokio keeps the task that it woke last in a slot that no other worker can steal
//!   from. A local hand-off therefore puts an empty task behind the one it wakes, as the task that
//!   let go may compute for long.
//! - An acquire counts against Tokio's budget of a task: a key that is free in this process is
//!   granted without waiting for anything, and a loop would never let others run. A driver is
//!   polled outside of that budget. Once it is used up, each channel and socket says that it is not
//!   ready and wakes at once, and the baton would never be laid down.
//! - A thread, or a descriptor for its runtime, may not be to be had. What was made for it is
//!   dropped under the conductor's mutex and inside of an application's runtime, so its drop takes
//!   no mutex and waits for nothing (`ground/own_thread.rs`).
//! - A timer of Tokio fires by the runtime in whose context it was made, and panics when that is
//!   gone. No store has one of its own, which `.ci/run` checks. A bound on a request
//!   (`ground/timeout.rs`) makes its timer anew for whoever polls from another runtime. For the first
//!   poll of a young key it makes none, as the conductor comes by in 50 ms.
//! - A runtime may have no timers, and a caller no runtime. Both are one case: what they poll is
//!   polled in the conductor's runtime, which they enter for the length of a poll
//!   (`Shared::lent_runtime`). Only the panic of a timer tells that there are none, so it is
//!   caught, once for each runtime in a thread.
//! - A connection is served by a task of the runtime that made it, so stores make theirs at a
//!   [`Home`](crate::backend::io::Home).
//! - The thread of the conductor starts with the first lock that is taken or waited for. It cannot
//!   start later: who would notice that a hold has grown old, when the runtime of its holder is
//!   blocked?
//! - A hold of less than 50 ms that nobody waits for does not listen for pushes: nothing would come
//!   of them.

mod ask;
mod conduct;
mod election;
mod hold;
mod key;
mod multi;
mod observe;

#[cfg(feature = "idempotency")]
pub(crate) use ask::check;
pub use ask::{Acquire, OneKey};
pub(crate) use ask::{Plan, Served};
pub use election::{Observe, RunFor, Term};
pub use hold::{
    CutWatch, Downgrade, LockGuard, LockHandle, LockScope, Lost, RenewalFailing, RenewalFailure,
    RevokeRequested, Scoped,
};
pub use key::Closed;
pub(crate) use key::{RELEASE_WITHIN, Shared};
pub use multi::{KeySet, MultiAcquire, MultiLockGuard, MultiLockHandle, MultiLost};
