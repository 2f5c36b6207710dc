//! The scope that running code is called under: the holds that it re-enters, and those who want to
//! know whether it was cut.
//!
//! Code that is called under a lock may ask for the same lock. [`LockScope`] is why it does not wait
//! for its own caller. Work that is stopped in the middle, as its lock was lost, has no outcome.
//! [`CutWatch`] tells those who keep outcomes of it, and [`HandlerRan`] says on a response how far
//! its handler got.

pub use crate::engine::{CutWatch, LockScope};
pub use crate::handler_ran::HandlerRan;
