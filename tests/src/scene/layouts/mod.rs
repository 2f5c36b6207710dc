//! The layouts, one file each: a type with what it is made of, its [`Layout`] and its [`Kind`].
//!
//! - `memory`: the store in this process. `sqlite`: a file.
//! - `on_server`: one server of a database, of which `postgres` and `mariadb` spell the rest.
//! - `redis`: one server, also in the layout of Redisson. `sentinel`, `cluster`: several. `redlock`: a quorum of them.
//! - `zookeeper`: one server. `ensemble`: three. `zookeeper_quorum`: a quorum of them.
//! - `etcd`: one member. `etcd_cluster`: three.

mod cluster;
mod ensemble;
mod etcd;
mod etcd_cluster;
mod mariadb;
mod memory;
mod postgres;
mod redis;
mod redlock;
mod sentinel;
mod sqlite;
mod zookeeper;
mod zookeeper_quorum;

use super::layout::{Keeps, Kind, Layout, Power, Tempo, Times, Verb};
use super::line::Line;
use crate::proxy::Match;

pub use cluster::CLUSTER;
pub use ensemble::ENSEMBLE;
pub use etcd::ETCD;
pub use etcd_cluster::ETCD_CLUSTER;
pub use mariadb::MARIADB;
pub use memory::MEMORY;
pub use postgres::POSTGRES;
pub use redis::{REDIS, REDISSON};
pub use redlock::REDLOCK;
pub use sentinel::SENTINEL;
pub use sqlite::SQLITE;
pub use zookeeper::ZOOKEEPER;
pub use zookeeper_quorum::ZOOKEEPER_QUORUM;

/// The power that every quorum lacks, and why.
const NO_SHARE: (Power, &str) =
    (Power::Share, "readers and permits would need a majority that agrees on all of them");

/// The capabilities of a database, whichever it is.
const OF_A_DATABASE: &[&str] = &[
    "fencing",
    "fifo",
    "push",
    "shared",
    "permits",
    "election",
    "revocation",
    "force_release",
    "force_acquire",
    "listing",
];

/// The capabilities of a quorum, whose members' lines differ.
const OF_A_QUORUM: &[&str] = &["fencing", "push", "force_release", "listing"];

/// All of them.
pub const KINDS: [&Kind; 14] = [
    &MEMORY,
    &SQLITE,
    &POSTGRES,
    &MARIADB,
    &REDIS,
    &REDISSON,
    &SENTINEL,
    &CLUSTER,
    &REDLOCK,
    &ZOOKEEPER,
    &ENSEMBLE,
    &ZOOKEEPER_QUORUM,
    &ETCD,
    &ETCD_CLUSTER,
];

/// The one that a command line calls so.
#[must_use]
pub fn named(store: &str) -> Option<&'static Kind> {
    KINDS.into_iter().find(|kind| kind.store == store)
}
