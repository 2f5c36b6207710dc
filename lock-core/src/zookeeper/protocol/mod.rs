//! The meaning of ZooKeeper's answers. Pure: no I/O, no clock, no runtime, no randomness.
//!
//! - [`children`]: the line in a directory.
//! - [`clock`]: until when a session surely lives.
//! - [`tokens`]: of a store on its own.

pub(super) mod children;
pub(super) mod clock;
pub(super) mod tokens;
