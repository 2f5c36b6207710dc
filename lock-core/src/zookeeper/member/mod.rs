//! A server that is a member of a quorum: whether it may grant, and its token counters.

pub(super) mod counter;
pub(super) mod enrolled;
