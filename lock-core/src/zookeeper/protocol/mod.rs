//! What ZooKeeper's answers come to. Pure: no I/O, no clock, no runtime, no randomness.
//!
//! - [`children`]: the line in a directory.
//! - [`session`]: until when a session surely lives.

pub(super) mod children;
pub(super) mod session;
