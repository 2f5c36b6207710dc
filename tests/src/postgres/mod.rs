//! A real PostgreSQL server, started and stopped by tests.
//!
//! It runs on a free loopback port, in a folder of its own, and writes nothing to the disk for good
//! (`fsync = off`): a server that is killed comes back with all it answered, as the machine is the
//! same. It refuses to run as root, so there it is started as the user that its package makes.
//!
//! - `server`: starting, stopping and freezing a server. `admin`: statements of the fixture itself.
//! - `disk`: a small disk for a server. `pooler`: a pgbouncer before a server.

mod admin;
mod disk;
mod pooler;
mod server;

pub use pooler::PgBouncer;
pub use server::{PostgresOptions, PostgresServer};
