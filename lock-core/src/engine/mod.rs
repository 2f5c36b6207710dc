//! The engine: the only place that spawns, selects and sleeps.
//!
//! - [`client`](shared): what all keys of one client share.
//! - [`registry`]: the busy keys.
//! - [`cell`]: one busy key, its [`Cohort`](crate::proto::Cohort) behind a short mutex.
//! - [`driver`]: the one task of a busy key, which talks to the store.
//! - [`background`]: whether code is polled by the conductor.
//! - [`leave`]: withdrawals that were not answered, tried again in the background.
//! - [`acquire`], [`lost`], [`revoke`], [`closed`]: the futures that callers hold.
//! - [`scope`]: what running code is called under: holds to re-enter, and who watches for cuts.
//! - [`observe`]: what those who watch a service see.
//! - [`clock`]: the one place that reads the time, with what the machine was [`suspended`] for;
//!   [`wall`] is for tokens.

mod acquire;
// Until the conductor enters it.
#[cfg_attr(not(all(feature = "redis", feature = "test-util")), allow(dead_code))]
pub(crate) mod background;
mod cell;
pub(crate) mod clock;
mod closed;
mod driver;
mod leave;
mod lost;
mod observe;
mod registry;
mod revoke;
mod scope;
mod shared;
pub(crate) mod suspended;
pub(crate) mod wall;

pub use acquire::Acquire;
pub(crate) use cell::{Hold, HoldView};
pub use closed::Closed;
#[cfg(feature = "redis")]
pub(crate) use driver::FENCES;
pub(crate) use leave::RELEASE_WITHIN;
pub use lost::Lost;
#[cfg(feature = "metrics")]
pub(crate) use observe::labels;
pub use revoke::RevokeRequested;
pub use scope::{CutWatch, LockScope, Scoped};
pub(crate) use shared::Shared;
#[cfg(feature = "zookeeper")]
pub(crate) use shared::lock;
