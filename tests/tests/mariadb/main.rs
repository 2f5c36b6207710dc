//! Faults of a lock in MariaDB alone, and the scenes of all layouts on it.
//!
//! Each test names its fault (F…) and the invariants (V…) that it defends, as `docs/faults.md` has
//! them. Bounds on time are wide, for a machine that is busy with other things; no assertion is
//! decided by a sleep.

#![allow(clippy::disallowed_methods)]

#[path = "../sql_records/conformance.rs"]
mod conformance;
mod errors;
#[path = "../sql_conformance/failover.rs"]
mod failover;
mod fence;
mod late;
mod outages;
#[path = "../sql_records/payments.rs"]
mod payments;
mod pool;
#[path = "../sql_conformance/processes.rs"]
mod processes;
mod records;
mod scenes;
mod shop;
mod support;
#[path = "../sql_conformance/sweep.rs"]
mod sweep;
mod tls;
#[path = "../sql_conformance/troubles.rs"]
mod troubles;
