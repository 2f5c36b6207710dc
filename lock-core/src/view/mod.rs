//! The views for those who watch a service: what a store knows of a key, which keys of this client
//! are busy, and what the client has counted.

// Files:
//
// - `inspection`: the view that a store has of a key. `leader`: the leader of an election.
// - `busy`: the busy keys of one client. `list`: those of a store. `stats`: a client's counters.

mod busy;
mod inspection;
mod leader;
mod list;
mod stats;

pub use self::busy::{BusyHold, BusyKey, Quantiles};
pub use self::inspection::{Holder, Inspection, MemberHealth, MemberState, Waiter};
pub use self::leader::Leader;
pub use self::list::{Inspections, KeyList};
pub use self::stats::{ShutdownReport, Stats};
