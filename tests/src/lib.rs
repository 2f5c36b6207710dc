//! Real servers, a faulty network and a checker, for the tests and benchmarks of the workspace.
//!
//! A distributed lock is tested by what is done to it: its server is stopped, its link is cut,
//! its holder is frozen. This crate does these things on one machine and writes down what came
//! of them:
//!
//! - [`redis::RedisServer`] runs a real `redis-server` on a free port and stops it by its pid.
//! - [`zookeeper::ZooKeeperServer`] does the same with a real ZooKeeper, and
//!   [`zookeeper::ZooKeeperEnsemble`] with a quorum of them, whose links can be cut.
//! - [`postgres::PostgresServer`] does the same with a real PostgreSQL, and
//!   [`mariadb::MariaDbServer`] with a real MariaDB.
//! - [`etcd::EtcdServer`] does the same with a real etcd, and [`etcd::EtcdCluster`] with members that
//!   elect a leader.
//! - [`proxy::Proxy`] stands between a client and a server, and cuts, delays or swallows.
//! - [`worker::Worker`] drives a separate process (`src/bin/worker.rs`) that holds locks, so that
//!   a holder can be stopped, continued and killed.
//! - [`curator::Curator`] drives Apache Curator in a Java process, as client and as rival.
//! - [`browser::Browser`] is a real Chromium, for the pages.
//! - [`resource::FencedRegister`] is what a lock protects: it refuses the writes of stale holders.
//! - [`scene`] does every fault of the matrix to every layout of servers.
//! - [`seat::Seat`] is a claim at the seam, driven verb by verb.
//! - [`history`] records what each process saw, and [`checker`] proves or refutes the invariants
//!   on it.
//!
//! ```no_run
//! use tests::redis::RedisServer;
//!
//! let server = RedisServer::start();
//! println!("{} holds {} keys", server.url(), server.keys().len());
//! ```
//!
//! Fixtures panic with a reason instead of returning errors: a test has nothing else to do with
//! one. Whatever a fixture starts ends with it, also when the test panics.

// A test crate owns its clocks: it measures what the library promises about time.
#![allow(clippy::disallowed_methods)]

/// The snippets of pages compile, and run where that ends.
#[cfg(doctest)]
mod pages {
    macro_rules! pages {
        ($($name:ident $page:literal)*) => {
            $(#[doc = include_str!(concat!("../../", $page))] struct $name;)*
        };
    }

    pages! {
        Readme "README.md"
        OfCore "lock-core/README.md"
        OfTower "lock-tower/README.md"
        Cron "docs/guides/cron.md"
        FlashSale "docs/guides/flash-sale.md"
        Leader "docs/guides/leader.md"
        Migration "docs/guides/migration.md"
        Observability "docs/observability.md"
        Payment "docs/guides/payment.md"
        Shutdown "docs/guides/shutdown.md"
        SlowApi "docs/guides/slow-api.md"
    }
}

pub mod actor;
mod admin;
pub mod blocked;
pub mod browser;
pub mod certificates;
pub mod chance;
pub mod checker;
pub mod clock;
pub mod curator;
pub mod database;
pub mod etcd;
pub mod executions;
pub mod folder;
pub mod history;
pub mod mariadb;
mod movable_clock;
mod other_user;
pub mod port;
pub mod postgres;
mod process;
pub mod proxy;
pub mod redis;
pub mod resource;
pub mod said;
pub mod scene;
pub mod seat;
pub mod sharing;
pub mod stalls;
pub mod strange;
pub mod support;
pub mod wait;
mod watchdog;
pub mod worker;
pub mod zookeeper;
