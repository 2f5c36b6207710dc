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
//!
//! The order is kept by those who take keys by it alone. Whoever takes several under a hold has
//! left it: `[a, b]` under a hold of `b` waits for `a`, while another who has `a` waits for `b`.
//! Both wait until their budgets end.
//!
//! A *try* is for all keys and ends at one instant, which each acquire is given (`Acquire::until`).
//! A try that cannot have one key gives up those that it has before the pause, so nobody waits for
//! a key while its holder sleeps. The store's answers to that are waited for within the budget, so
//! the keys are free when the error is returned.
//!
//! Locks that are held while others are waited for are renewed and watched. When one is lost the
//! try is over; this is looked for once more when the last is there. A `hold_limit` counts from
//! then, so the earlier keys are taken with what is left of the try on top.

mod acquire;
mod guard;
mod handle;
mod keys;

pub use acquire::MultiAcquire;
pub use guard::MultiLockGuard;
pub use handle::{MultiLockHandle, MultiLost};
pub use keys::KeySet;
