//! A busy key of this process, from its first waiter to its last request.
//!
//! - [`shared`]: state that all keys of one client share. [`all`]: what is done to all of them.
//! - [`cell`]: one busy key, with its [`Cohort`](crate::proto::Cohort) behind a short mutex.
//! - [`host`]: a key, as its driver sees it. [`opens`]: the kinds of claims that it opens.
//! - [`driver`]: talks to the store for a key, by a [`lane`] for each claim, those [`beside`] the
//!   first for permits.
//! - [`leave`]: withdrawals that were not answered, tried again in the background.
//! - [`closed`]: being told that the client shuts down.

mod all;
mod beside;
mod cell;
mod closed;
mod driver;
mod host;
mod lane;
mod leave;
mod opens;
mod shared;

pub(crate) use cell::Shared;
pub(in crate::engine) use cell::{Drives, KeyCell, Releaser, Timer, unserved};
pub use closed::Closed;
pub(in crate::engine) use driver::gone;
pub(in crate::engine) use host::{KeyCohort, KeyEffects};
pub(crate) use leave::RELEASE_WITHIN;
pub(in crate::engine) use opens::Opens;
