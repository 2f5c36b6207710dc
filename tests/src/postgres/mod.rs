//! A real PostgreSQL server, started and stopped by tests.
//!
//! It runs on a free loopback port, in a folder of its own, and writes nothing to the disk for good
//! (`fsync = off`): a server that is killed comes back with all it answered, as the machine is the
//! same. It refuses to run as root, so there it is started as the user that its package makes.

mod admin;
mod disk;
mod pooler;
mod server;

pub use pooler::PgBouncer;
pub use server::{PostgresOptions, PostgresServer};
