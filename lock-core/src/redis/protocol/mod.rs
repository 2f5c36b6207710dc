//! What is said at the server: names, scripts, and where both are in a cluster. Pure; the contract
//! is docs/redis.md.

pub(in crate::redis) mod modes;
pub(in crate::redis) mod names;
pub(in crate::redis) mod script;
pub(in crate::redis) mod slots;
