//! What is done to a lock on one ZooKeeper server, and what must come of it.
//!
//! Each test names its fault (F…) and the invariants that it defends:
//!
//! - **V1** no accepted write carries a token below the highest one accepted. **V2** tokens grow
//!   per key in real-time order.
//! - **V3** a guard reports lost no later than its session can be gone, on its own clock.
//! - **V4** acquire returns within its budget. **V5** a free key with a live waiter is granted
//!   within one recheck, which is a third of the session.
//! - **V6** nothing is left: see [`support::nothing_left`]. **V8** the error says what happened.
//!
//! Most sessions here are longer than a test: what must come at once is then told from what would
//! come with the end of a session. Bounds on time are wide, for a machine that is busy with other
//! things; no assertion is decided by a sleep.

#![allow(clippy::disallowed_methods)]

mod blocked;
mod client;
mod data;
mod link;
mod many;
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
