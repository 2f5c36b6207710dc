//! The rules of the lock as pure code: no I/O, no clock, no runtime, no randomness. Time and
//! random bits are arguments.
//!
//! - [`cohort`]: who is next among the waiters of one process, and what to ask the store.
//! - [`lease`]: when to renew, and when a hold is over whatever the store says.
//! - [`fence`]: tokens reserved in blocks.
//! - [`backoff`]: pauses between tries.
//! - [`admission`]: how long a waiter will wait, and who is refused at arrival.
//! - [`quantiles`]: durations of late.
//! - [`line`]: a FIFO whose members can leave from the middle.
//! - [`children`]: the line in a ZooKeeper directory.
//! - [`roll`]: which members of a quorum may grant.
//! - [`votes`]: what the members of a quorum say, and what it comes to.
//! - [`session`]: until when a ZooKeeper session surely lives.

mod admission;
mod backoff;
#[cfg(feature = "zookeeper")]
pub(crate) mod children;
mod cohort;
mod fence;
mod lease;
mod line;
mod quantiles;
mod roll;
#[cfg(feature = "zookeeper")]
mod session;
mod votes;

#[cfg(feature = "idempotency")]
pub(crate) use backoff::OUTCOME_PAUSES;
pub(crate) use backoff::{FAULT_PAUSES, LOOK_PAUSES, retry_pause};
#[cfg(feature = "redis")]
pub(crate) use backoff::{RECONNECT_PAUSES, REDIRECT_PAUSES};
pub(crate) use cohort::{
    Ask, Changes, Cohort, Counters, Effects, Entry, News, Overload, ReleaseAnswer, SeatId, Step,
    Verdict,
};
pub use fence::FenceRange;
pub(crate) use fence::{AHEAD_MAX, reserve, ticks};
#[cfg(feature = "test-util")]
pub(crate) use lease::margin;
pub(crate) use roll::{Act, Enrol, Identity, Roll, Standing};
#[cfg(feature = "zookeeper")]
pub(crate) use session::SessionClock;
pub(crate) use votes::{GRACE_MIN, Renewed, Ruling, Votes};
