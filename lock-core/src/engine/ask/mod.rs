//! Asking for a key, and the store for what it knows.
//!
//! - [`acquire`]: the future that waits for a lock.
//! - [`terms`]: from the options of an acquire to the terms of a claim.
//! - [`served`]: questions to the store outside of any key's driver.

mod acquire;
mod served;
mod terms;

pub use acquire::{Acquire, OneKey};
pub(crate) use acquire::{Plan, TRY_WITHIN};
pub(crate) use served::Served;
pub(crate) use terms::check;
