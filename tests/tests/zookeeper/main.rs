//! Faults of a lock on one ZooKeeper server alone, and the scenes of all layouts on it.
//!
//! Each test names its fault (F…) and the invariants (V…) that it defends, as `docs/faults.md` has
//! them. Most sessions here are longer than a test: what must come at once is then told from what
//! would come with the end of a session. Bounds on time are wide, for a machine that is busy with
//! other things; no assertion is decided by a sleep.

#![allow(clippy::disallowed_methods)]

mod blocked;
mod client;
mod data;
mod election;
mod link;
mod many;
mod modes;
mod operator;
mod processes;
mod revoke;
mod rights;
mod scenes;
mod server;
mod sessions;
mod support;
mod table;
mod tls;
mod waiters;
