//! Faults of a lock in a SQLite file alone, and the scenes of all layouts on it.
//!
//! Each test names its fault (F…) and the invariants (V…) that it defends, as `docs/faults.md` has
//! them. Bounds on time are wide, for a machine that is busy with other things; no assertion is
//! decided by a sleep.

#![allow(clippy::disallowed_methods)]

mod blocked;
mod errors;
mod file;
mod operator;
mod processes;
mod scenes;
mod support;
#[path = "../sql_conformance/sweep.rs"]
mod sweep;
