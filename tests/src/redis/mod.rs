//! A real `redis-server` of a test's own.
//!
//! A test needs a server that nobody else uses, that it may freeze, kill and start again, and
//! that is gone when the test ends, however it ends. [`RedisServer`] starts one on a free port of
//! the loopback interface with its own temporary directory; [`RedisOptions`] says how.
//!
//! ```no_run
//! use tests::redis::{RedisOptions, RedisServer};
//!
//! let mut server = RedisServer::with(RedisOptions::new().aof());
//! server.kill();
//! server.restart(); // same port, same directory
//! assert_eq!(server.keys(), []);
//! ```
//!
//! - `server`: starting, stopping and freezing a server. `options`: its configuration.
//! - `observe`: looking into a running server. `clock`: a server whose wall clock a test can move.
//! - `cluster`: a Redis Cluster. `sentinel_set`: a master, its replicas and their sentinels.

mod clock;
mod cluster;
mod observe;
mod options;
mod sentinel_set;
mod server;

pub use cluster::{RedisCluster, SLOTS};
pub use observe::{ClientInfo, CommandStat, CommandStats, KeyInfo};
pub use options::RedisOptions;
pub use sentinel_set::{SentinelOptions, SentinelSet};
pub use server::RedisServer;
