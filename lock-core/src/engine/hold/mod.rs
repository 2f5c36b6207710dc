//! Holds as a caller has them in hand.
//!
//! - [`view`]: which hold it is about.
//! - [`watch`]: waiting for news of a hold: [`lost`], [`failing`], [`revoke`], [`downgrade`].
//! - [`handle`]: all that can be asked of a hold.
//! - [`door`]: the way back into a hold, for what is called under it.
//! - [`held`], [`release`]: what ends it. [`guard`]: it, in the hands of a caller.
//! - [`scope`]: what running code is called under: holds to re-enter, and who watches for cuts.

mod door;
mod downgrade;
mod failing;
mod guard;
mod handle;
mod held;
mod lost;
mod release;
mod revoke;
mod scope;
mod view;
mod watch;

pub(in crate::engine) use door::Door;
pub use downgrade::Downgrade;
pub use failing::{RenewalFailing, RenewalFailure};
pub use guard::LockGuard;
pub use handle::LockHandle;
pub(in crate::engine) use held::Hold;
pub use lost::Lost;
pub use revoke::RevokeRequested;
pub(in crate::engine) use scope::Reentry;
pub use scope::{CutWatch, LockScope, Scoped};
