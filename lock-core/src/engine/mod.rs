//! The engine: what is done for the keys of a client. Nothing else spawns, selects and sleeps for
//! them; stores do at their [`Home`](crate::backend::io::Home).
//!
//! - [`shared`]: state that all keys of one client share.
//! - [`registry`]: the busy keys.
//! - [`cell`]: one busy key, with its [`Cohort`](crate::proto::Cohort) behind a short mutex.
//! - [`baton`]: who polls the driver of a key: one of the callers that wait for it, or the
//!   conductor.
//! - [`driver`]: talks to the store for a key, by a [`lane`] for each claim, those [`beside`] the
//!   first for permits. [`terms`]: from the options of an acquire to those of a claim.
//! - [`conductor`]: the one thread of a client, for what no caller polls.
//! - [`sweep`]: when the conductor takes keys over.
//! - [`leave`]: withdrawals that were not answered, tried again in the background.
//! - [`acquire`], [`release`], [`downgrade`], [`closed`]: the futures that callers hold.
//! - [`multi`]: several keys at once.
//! - [`election`]: one leader, and those who follow.
//! - [`hold`], [`handle`], [`guard`]: what a caller has in hand.
//! - [`lost`], [`failing`], [`revoke`]: those that wait for news of a hold ([`watch`]).
//! - [`scope`]: what running code is called under: holds to re-enter, and who watches for cuts.
//! - [`served`]: questions to the store outside of any key's driver.
//! - [`foreign`], [`handed`]: calling wakers, so that a panic or an idle worker costs nobody else.
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

mod acquire;
mod baton;
mod beside;
mod cell;
mod closed;
mod conductor;
mod downgrade;
mod driver;
mod election;
mod failing;
mod foreign;
mod guard;
mod handed;
mod handle;
mod hold;
mod lane;
mod leave;
mod lost;
mod multi;
mod observe;
mod registry;
mod release;
mod revoke;
mod scope;
mod served;
mod shared;
mod sweep;
mod terms;
mod watch;

pub(crate) use acquire::Plan;
pub use acquire::{Acquire, OneKey};
pub use closed::Closed;
pub use downgrade::Downgrade;
pub use election::{Observe, RunFor, Term};
pub use failing::{RenewalFailing, RenewalFailure};
pub use guard::LockGuard;
pub use handle::LockHandle;
pub(crate) use hold::Hold;
pub(crate) use leave::RELEASE_WITHIN;
pub use lost::Lost;
pub use multi::{KeySet, MultiAcquire, MultiLockGuard, MultiLockHandle, MultiLost};
pub use revoke::RevokeRequested;
pub use scope::{CutWatch, LockScope, Scoped};
pub(crate) use served::Served;
pub(crate) use shared::Shared;
#[cfg(feature = "idempotency")]
pub(crate) use terms::check;
