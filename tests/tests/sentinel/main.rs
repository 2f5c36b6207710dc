//! Faults of a lock at the master of a Sentinel set, and what must come of them.
//!
//! Each test names its fault (F…) and the invariants that it defends, as tests/faults does.

#![allow(clippy::disallowed_methods)]

mod conformance;
mod masters;
mod pool;
mod replicas;
mod scenes;
mod sentinels;
mod support;
mod switch;
