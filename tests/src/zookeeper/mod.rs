//! A real ZooKeeper of a test's own.
//!
//! A test needs a server that nobody else uses, that it may pause, kill and start again, and
//! that is gone when the test ends, however it ends. [`ZooKeeperServer`] starts one on a free
//! port of the loopback interface with its own temporary directory; [`ZooKeeperOptions`] says
//! how.
//!
//! ```no_run
//! use tests::zookeeper::{ZooKeeperOptions, ZooKeeperServer};
//!
//! let mut server = ZooKeeperServer::with(ZooKeeperOptions::new().tick_ms(500));
//! server.kill();
//! server.restart(); // same port, same data
//! assert_eq!(server.tree("/"), []);
//! ```
//!
//! [`ZooKeeperEnsemble`] starts several that form a quorum, with links that a test can cut.
//!
//! They run the classes of Debian's `zookeeper` on a Java of the path, without the package's
//! service. A server serves 0.3 s to 1 s after its start.
//!
//! - `server`: starting, stopping and pausing a server. `launch`: its process.
//! - `options`: its configuration.
//! - `ensemble`: several servers that form a quorum.
//! - `admin`: the fixture's own session. `words`: the four-letter words, which need none.
//! - `nodes`: its nodes, seen and changed by hand.
//! - `observe`: the server about itself and its clients.
//! - `expire`: ending a client's session from outside. `transactions`: the server's log of changes.

mod admin;
mod ensemble;
mod expire;
mod launch;
mod nodes;
mod observe;
mod options;
mod server;
mod transactions;
mod words;

pub use ensemble::ZooKeeperEnsemble;
pub use nodes::Node;
pub use observe::Session;
pub use options::ZooKeeperOptions;
pub use server::ZooKeeperServer;
