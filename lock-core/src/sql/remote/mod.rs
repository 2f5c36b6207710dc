//! Databases on a server: a few connections, and statements over them.
//!
//! - `server`: a server, as its dialect describes it.
//! - `pool`: connections that no request which is given up spoils.
//! - `link`: statements over them, asked again where that is safe.
//! - `unserved`: the reasons why a statement was not served.
//! - `renewals`: many claims in few statements.
//! - `time`: the server's clock, so that what was given up takes nothing.
//! - `params`: the parts that the URLs of all of them may hold.
//! - `durability`: the data on the server's disk before a grant is answered.

mod durability;
mod link;
mod params;
mod pool;
mod renewals;
mod server;
mod time;
mod unserved;

pub use durability::Durability;
pub(super) use link::{Link, Twice, opened};
pub(super) use params::Params;
#[cfg(feature = "postgres")]
pub(super) use pool::CONNECT;
pub(super) use pool::IDLE_MAX;
#[cfg(feature = "mysql")]
pub(super) use renewals::BATCH_MAX;
pub(super) use renewals::{Renewals, Renewed, Together};
pub(super) use server::Server;
pub(super) use time::ServerClock;
pub(super) use unserved::Unserved;
