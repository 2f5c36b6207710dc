//! A server that is a member of a quorum: whether it may grant ([`enrolled`]), and its token counters
//! ([`counter`]).

pub(super) mod counter;
pub(super) mod enrolled;
