//! A real etcd, one member or a cluster, on ports of its own.
//!
//! - `server`: starting, stopping and pausing one member. `cluster`: members that elect a leader.
//! - `ask`: asking a running member. `backup`: saving what a member has, and going back to it.
//! - `rival`: clients of others.

mod ask;
mod backup;
mod cluster;
mod rival;
mod server;

pub use ask::{Kv, Token};
pub use cluster::EtcdCluster;
pub use rival::Rival;
pub use server::{EtcdOptions, EtcdServer};
