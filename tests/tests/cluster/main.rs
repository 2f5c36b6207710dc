//! Locks on a Redis Cluster of three masters and three replicas, and what is done to it.
//!
//! Each test names the invariants that it defends:
//!
//! - **V1** no accepted write carries a token below the highest one accepted. **V2** tokens grow
//!   per key in real-time order.
//! - **V3** a guard reports lost no later than its lease end on its own clock.
//! - **V4** acquire returns within its budget. **V5** a free key with a live waiter is granted
//!   within one recheck.
//! - **V6** nothing is left: see [`support::nothing_left`]. **V8** the error says what happened.
//!
//! Bounds on time are wide, for a machine that is busy with other things; no assertion is decided
//! by a sleep.

#![allow(clippy::disallowed_methods)]

mod conformance;
mod connect;
mod failover;
mod many;
mod moves;
mod moves_of_several;
mod pool;
mod pushes;
mod records;
mod redirects;
mod replicas;
mod rights;
mod scenes;
mod support;
mod tls;
