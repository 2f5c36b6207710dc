//! What is done to a lock on one Redis server, and what must come of it.
//!
//! Each test names its fault (F…) and the invariants that it defends:
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

mod clocks;
mod connect;
mod data;
mod known_bugs;
mod link;
mod many;
mod memory;
mod moved_clock;
mod pool;
mod rights;
mod scenes;
mod server;
mod support;
mod tls;
mod waiters;
