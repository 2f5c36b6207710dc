//! The rules of the lock as pure code: no I/O, no clock, no runtime, no randomness. Time and
//! random bits are arguments.
//!
//! - [`cohort`]: who is next among the waiters of one process, and what to ask the store.
//! - [`lease`]: when to renew, and when a hold is over whatever the store says.
//! - [`reason`]: why a wait or a hold ended.
//! - [`admission`]: how long a waiter will wait, and who is refused at arrival.
//! - [`quantiles`]: durations of late.
//! - [`line`]: a FIFO whose members can leave from the middle.
//! - [`membership`]: which members of a quorum may grant.
//! - [`votes`]: what the members of a quorum say, and what it comes to.
//!
//! The state that a store keeps of a key is pure as well:
//! [`backend::register`](crate::backend::register).

mod admission;
mod cohort;
pub(crate) mod lease;
mod line;
mod membership;
mod quantiles;
mod reason;
mod votes;

pub(crate) use cohort::{
    Ask, Changes, Cohort, Counters, Effects, Entry, Event, NotDowngraded, Overload, ReleaseAnswer,
    SeatId, Step, Verdict, Waking, effort,
};
pub(crate) use membership::{Act, Enrol, Identity, Membership, Standing};
pub use reason::{BlockedBy, LossReason};
pub(crate) use votes::{GRACE_MIN, Renewed, Ruling, Votes};

/// How many of `members` are a majority: two such parts have one in common.
pub(crate) fn majority_of(members: usize) -> usize {
    members / 2 + 1
}
