//! A real MariaDB server, started and stopped by tests.
//!
//! It runs on a free loopback port, in a folder of its own with its socket, and is no service of the
//! machine's. It writes its log at each commit, and to the disk for good only now and then: a server
//! that is killed comes back with all it answered, as the machine is the same.

mod admin;
mod server;

pub use server::{MariaDbOptions, MariaDbServer};
