//! A real etcd, one member or a cluster, on ports of its own.

mod ask;
mod backup;
mod cluster;
mod rival;
mod server;

pub use ask::{Kv, Token};
pub use cluster::EtcdCluster;
pub use rival::Rival;
pub use server::{EtcdOptions, EtcdServer};
