//! Several keys at once, all or none.
//!
//! Two who take the same keys in different orders wait for each other for ever. So all take them in
//! one order, that of their encoded bytes, which is the same in every process. On top of that come
//! the rules that make one lock of them:
//!
//! - [`keys`]: a set of keys is sorted, each is in it once, and there is a bound.
//! - [`acquire`]: one budget for all. A try that cannot have one key gives up those that it has.
//! - [`guard`]: all are given up together, the last one first.
//! - [`handle`]: when one is lost, all count as lost.
//!
//! There is no protocol for it: each key is an [`Acquire`](super::Acquire) like any other.

mod acquire;
mod guard;
mod handle;
mod keys;

pub use acquire::MultiAcquire;
pub use guard::MultiLockGuard;
pub use handle::{MultiLockHandle, MultiLost};
pub use keys::KeySet;
