//! A lock at a server: the verbs of its claims, and what an operator may ask.
//!
//! - [`claim`]: the verbs. [`downgrade`]: one of them. [`election`]: those of candidates,
//!   and [`follower`]: of those who follow them. [`member`]: those at a member of a quorum.
//!   [`operator`]: who holds a key, and to take it away. [`doubts`]: attempts without an answer.
//!   [`naming`]: what a hold is for.

pub(in crate::redis) mod claim;
pub(in crate::redis) mod doubts;
mod downgrade;
mod election;
pub(in crate::redis) mod follower;
pub(in crate::redis) mod member;
mod naming;
pub(in crate::redis) mod operator;

use std::time::Duration;

/// The shortest lease that is renewed in time over a network.
pub(in crate::redis) const LEASE_MIN: Duration = Duration::from_millis(100);
