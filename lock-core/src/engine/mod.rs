//! The engine: the only place that spawns, selects and sleeps.
//!
//! - [`client`](shared): what all keys of one client share.
//! - [`registry`]: the busy keys.
//! - [`cell`]: one busy key, with its [`Cohort`](crate::proto::Cohort) behind a short mutex.
//! - [`baton`]: who polls the driver of a key: one of the callers that wait for it, or the
//!   conductor.
//! - [`driver`]: what talks to the store for a key.
//! - [`conductor`]: the one thread of a client, for what no caller polls.
//! - [`sweep`]: when the conductor takes keys over.
//! - [`leave`]: withdrawals that were not answered, tried again in the background.
//! - [`acquire`], [`release`], [`closed`]: the futures that callers hold.
//! - [`multi`]: several keys at once.
//! - [`election`]: one leader, and those who follow.
//! - [`hold`], [`handle`], [`guard`]: what a caller has in hand.
//! - [`lost`], [`failing`], [`revoke`]: those that wait for news of a hold ([`watch`]).
//! - [`scope`]: what running code is called under: holds to re-enter, and who watches for cuts.
//! - [`observe`]: what those who watch a service see.

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
