//! A claim's node in a lock directory: deleted whatever happens, and watched.
//!
//! - [`lock_node`]: the node. [`removal`]: how it is deleted.
//! - [`watch`]: watches of a waiter and of a holder.

pub(super) mod lock_node;
pub(super) mod removal;
pub(super) mod watch;
