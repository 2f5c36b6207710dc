//! A lock at a server: the verbs of its claims, and what an operator may ask.
//!
//! - [`claim`]: the verbs. [`downgrade`]: one of them. [`election`]: those of candidates and
//!   of followers. [`member`]: those at a member of a quorum.
//!   [`operator`]: who holds a key, and to take it away.
//! - [`bare`]: the requests of a free key without a client, for benchmarks.

#[cfg(feature = "bench-util")]
pub(in crate::redis) mod bare;
pub(in crate::redis) mod claim;
mod downgrade;
mod election;
pub(in crate::redis) mod member;
pub(in crate::redis) mod operator;
