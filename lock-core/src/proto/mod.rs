//! The rules of the lock as pure code: no I/O, no clock, no runtime, no randomness. Time and
//! random bits are arguments.
//!
//! - [`cohort`]: who is next among the waiters of one process, and what to ask the store.
//! - [`lease`]: when to renew, and when a hold is over whatever the store says.
//! - [`tokens`]: fencing tokens, reserved in blocks.
//! - [`reason`]: why a wait or a hold ended.
//! - [`admission`]: how long a waiter will wait, and who is refused at arrival.
//! - [`quantiles`]: durations of late.
//! - [`line`]: a FIFO whose members can leave from the middle.
//! - [`children`]: the line in a ZooKeeper directory.
//! - [`membership`]: which members of a quorum may grant.
//! - [`votes`]: what the members of a quorum say, and what it comes to.
//! - [`register`]: who holds a key, in which mode, and who waits, for stores that keep it.
//! - [`session`]: until when a ZooKeeper session surely lives.

mod admission;
#[cfg(feature = "zookeeper")]
pub(crate) mod children;
mod cohort;
mod lease;
mod line;
mod membership;
mod quantiles;
mod reason;
mod register;
#[cfg(feature = "zookeeper")]
mod session;
mod tokens;
mod votes;

pub(crate) use cohort::{
    Ask, Changes, Cohort, Counters, Effects, Entry, Event, NotDowngraded, Overload, ReleaseAnswer,
    SeatId, Step, Verdict, effort,
};
#[cfg(feature = "test-util")]
pub(crate) use lease::margin;
pub(crate) use membership::{Act, Enrol, Identity, Membership, Standing};
pub use reason::{BlockedBy, LossReason};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use register::Owner;
pub(crate) use register::{OtherLimit, Place, Register, Turn};
#[cfg(feature = "zookeeper")]
pub(crate) use session::SessionClock;
pub(crate) use tokens::{AHEAD_MAX, reserve, ticks};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use tokens::{EPOCH_US, PER_US};
pub(crate) use votes::{GRACE_MIN, Renewed, Ruling, Votes};
