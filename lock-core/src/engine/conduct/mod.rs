//! The polls of keys: by whom, and when. Nothing here knows what a key's driver does.
//!
//! - [`kept`]: a key, as the conductor sees it.
//! - [`registry`]: the busy keys.
//! - [`baton`]: who polls the driver of a key: one of the callers that wait for it, or the
//!   conductor.
//! - [`conductor`]: the one thread of a client, for what no caller polls.
//! - [`sweep`]: when the conductor takes keys over.
//! - [`handed`]: calling a waker, so that an idle worker costs nobody else.

mod baton;
mod conductor;
mod handed;
mod kept;
mod registry;
mod sweep;
#[cfg(test)]
mod tests;

pub(in crate::engine) use baton::Baton;
pub(in crate::engine) use conductor::{Conductor, HELPED_AFTER, LOOK_AFTER, ROUNDS_MAX};
pub(in crate::engine) use handed::Handed;
pub(crate) use kept::Kept;
pub(in crate::engine) use sweep::NEVER;
