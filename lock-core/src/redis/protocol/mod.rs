//! The words at the server: names, scripts, and where both are in a cluster. Pure; the contract is
//! docs/redis.md.
//!
//! - `names`: the names of keys. `modes`: the text of modes. `redisson`: the names of a lock in the
//!   layout of Redisson. `layout`: in which of the two.
//! - `script/`: one script for each verb. `slots`: slots, and a channel for each.

pub(in crate::redis) mod layout;
pub(in crate::redis) mod modes;
pub(in crate::redis) mod names;
pub(in crate::redis) mod redisson;
pub(in crate::redis) mod script;
pub(in crate::redis) mod slots;
