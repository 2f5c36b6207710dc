//! Databases on a server: a few connections, and statements over them.
//!
//! - `server`: what a dialect says of its server.
//! - `pool`: connections that no request which is given up spoils.
//! - `link`: statements over them, asked again where that is safe.
//! - `unserved`: why a statement was not served.
//! - `params`: what the URLs of all of them may hold.
//! - `durability`: what is on the disk of the server before a grant is answered.

mod durability;
mod link;
mod params;
mod pool;
mod server;
mod unserved;

pub use durability::Durability;
pub(super) use link::{CONNECT, Link, Twice, opened};
pub(super) use params::Params;
pub(super) use server::Server;
pub(super) use unserved::Unserved;
