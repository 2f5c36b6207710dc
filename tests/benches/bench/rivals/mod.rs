//! The rivals that are measured, ours among them.

pub(crate) mod database;
mod evalsha;
mod layer;
mod local;
mod ours;
mod poller;
pub(crate) mod program;
pub(crate) mod rslock;
mod scripts;
mod sqlite;
mod zookeeper;

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};

use crate::measure::{TaskLog, Window, contend};
pub(crate) use evalsha::Evalsha;
use layer::{Layered, Limited, Plain};
pub(crate) use local::TokioRwLock as LocalRwLock;
pub(crate) use ours::{Ours as OurClient, client, options};
use sqlite::{Statements, Way};
use zookeeper::BareZooKeeper;

/// Something that can be taken and given back.
pub(crate) trait Rival: Clone + Send + Sync + 'static {
    /// Takes `key`, does `held` while it has it, and gives it back.
    fn cycle<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) -> impl Future<Output = ()> + Send;
}

/// The rivals by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Contender {
    Ours,
    OursStrict,
    OursShared,
    OursPermits,
    Rslock,
    Poller {
        every_ms: u64,
    },
    /// The poller, over the slots of a semaphore.
    SlotPoller {
        every_ms: u64,
    },
    TokioMutex,
    TokioRwLock,
    TokioSemaphore,
    /// A handler behind `LockLayer`.
    HandlerLayered {
        has_body: bool,
    },
    /// The same behind a limit of one request at a time.
    HandlerLimited,
    Handler,
    /// Two round trips of a script that does nothing.
    EvalshaEmpty,
    /// Two round trips of the scripts of a `SET NX PX` lock.
    EvalshaSet,
    /// Two round trips of the scripts that `Ours` calls.
    EvalshaOurs,
    /// Two round trips of ZooKeeper's: create and list, delete.
    BareTwo,
    /// The same three requests one after the other.
    BareThree,
    /// Two updates of one row in SQLite.
    SqliteUpdates,
    /// A unique row in SQLite, inserted and deleted.
    SqliteUnique,
    /// A transaction of SQLite that begins with its right to write.
    SqliteImmediate,
    /// Two updates of one row in PostgreSQL.
    PostgresUpdates,
    /// A unique row in PostgreSQL, inserted and deleted.
    PostgresUnique,
    /// A row of PostgreSQL that is locked in a transaction.
    PostgresForUpdate,
    /// An advisory lock of a session of PostgreSQL.
    PostgresAdvisory,
    /// Two updates of one row in MariaDB.
    MariaDbUpdates,
    /// A unique row in MariaDB, inserted and deleted.
    MariaDbUnique,
    /// A row of MariaDB that is locked in a transaction.
    MariaDbForUpdate,
    /// A lock of a session of MariaDB, by name.
    MariaDbGetLock,
}

use Contender::{
    BareThree, BareTwo, EvalshaEmpty, EvalshaOurs, EvalshaSet, Handler, HandlerLayered,
    HandlerLimited, MariaDbForUpdate, MariaDbGetLock, MariaDbUnique, MariaDbUpdates, Ours,
    OursPermits, OursShared, OursStrict, Poller, PostgresAdvisory, PostgresForUpdate,
    PostgresUnique, PostgresUpdates, Rslock, SlotPoller, SqliteImmediate, SqliteUnique,
    SqliteUpdates, TokioMutex, TokioRwLock, TokioSemaphore,
};

/// The three pollers that every contended work meets.
pub(crate) const POLLERS: [Contender; 3] =
    [Poller { every_ms: 1 }, Poller { every_ms: 50 }, Poller { every_ms: 100 }];

impl Contender {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Ours => "ours",
            OursStrict => "ours, strict",
            OursShared => "ours, shared",
            OursPermits => "ours, permits",
            Rslock => "rslock 0.10",
            Poller { every_ms: 1 } => "poller, 1 ms",
            Poller { every_ms: 50 } => "poller, 50 ms",
            Poller { .. } => "poller, 100 ms",
            SlotPoller { every_ms: 1 } => "SET NX semaphore, 1 ms",
            SlotPoller { .. } => "SET NX semaphore, 50 ms",
            TokioMutex => "tokio::sync::Mutex",
            TokioRwLock => "tokio::sync::RwLock",
            TokioSemaphore => "tokio::sync::Semaphore",
            HandlerLayered { has_body: false } => "LockLayer",
            HandlerLayered { has_body: true } => "LockLayer, 1 KiB there and back",
            HandlerLimited => "ConcurrencyLimit(1)",
            Handler => "the handler alone",
            EvalshaEmpty => "2 × EVALSHA, empty script",
            EvalshaSet => "2 × EVALSHA, set and delete",
            EvalshaOurs => "2 × EVALSHA, our scripts",
            BareTwo => "bare: create ‖ list, delete",
            BareThree => "bare: create, list, delete",
            SqliteUpdates => "2 × UPDATE of a row",
            SqliteUnique => "unique row, 1 ms",
            SqliteImmediate => "BEGIN IMMEDIATE",
            PostgresUpdates | MariaDbUpdates => "2 × upsert of a row",
            PostgresUnique => "unique row in PostgreSQL, 1 ms",
            MariaDbUnique => "unique row in MariaDB, 1 ms",
            PostgresForUpdate | MariaDbForUpdate => "SELECT … FOR UPDATE",
            PostgresAdvisory => "pg_advisory_lock",
            MariaDbGetLock => "GET_LOCK",
        }
    }

    /// The Redis commands that its clients send. What scripts call inside is counted by the server
    /// too, so these are chosen not to appear in the scripts of the same rival.
    pub(crate) fn verbs(self) -> &'static [&'static str] {
        match self {
            Ours | OursStrict | OursShared | OursPermits | HandlerLayered { .. } => {
                &["evalsha", "eval", "script|load", "subscribe", "ssubscribe", "unsubscribe"]
            }
            Rslock | Poller { .. } | SlotPoller { .. } => &["set", "evalsha", "eval"],
            EvalshaEmpty | EvalshaSet | EvalshaOurs => &["evalsha"],
            TokioMutex | TokioRwLock | TokioSemaphore | HandlerLimited | Handler | BareTwo
            | BareThree | SqliteUpdates | SqliteUnique | SqliteImmediate | PostgresUpdates
            | PostgresUnique | PostgresForUpdate | PostgresAdvisory | MariaDbUpdates
            | MariaDbUnique | MariaDbForUpdate | MariaDbGetLock => &[],
        }
    }

    pub(crate) async fn connect(self, url: &str) -> Connected {
        match self {
            Ours | OursStrict | OursShared | OursPermits => {
                Connected::Ours(ours::Ours::connect(self, url).await)
            }
            Rslock => Connected::Rslock(rslock::Rslock::new(url)),
            Poller { every_ms } => {
                let every = Duration::from_millis(every_ms);
                Connected::Poller(poller::Poller::connect(url, every).await)
            }
            SlotPoller { every_ms } => {
                let every = Duration::from_millis(every_ms);
                Connected::SlotPoller(poller::SlotPoller::connect(url, every).await)
            }
            TokioMutex => Connected::TokioMutex(local::TokioMutex::default()),
            TokioRwLock => Connected::TokioRwLock(local::TokioRwLock::default()),
            TokioSemaphore => Connected::TokioSemaphore(local::TokioSemaphore::default()),
            HandlerLayered { has_body } => {
                Connected::Layered(Layered::connect(url, has_body).await)
            }
            HandlerLimited => Connected::Limited(Limited::new()),
            Handler => Connected::Plain(Plain::new()),
            EvalshaEmpty => Connected::Evalsha(Evalsha::empty(url).await),
            EvalshaSet => Connected::Evalsha(Evalsha::set_and_delete(url).await),
            EvalshaOurs => Connected::OurScripts(scripts::OurScripts::connect(url).await),
            BareTwo => Connected::BareZooKeeper(BareZooKeeper::connect(url, true).await),
            BareThree => Connected::BareZooKeeper(BareZooKeeper::connect(url, false).await),
            SqliteUpdates => Connected::Sqlite(Statements::connect(url, Way::TwoUpdates).await),
            SqliteUnique => Connected::Sqlite(Statements::connect(url, Way::UniqueRow).await),
            SqliteImmediate => Connected::Sqlite(Statements::connect(url, Way::Immediate).await),
            PostgresUpdates => Connected::postgres(url, database::Way::TwoUpdates).await,
            PostgresUnique => Connected::postgres(url, database::Way::UniqueRow).await,
            PostgresForUpdate => Connected::postgres(url, database::Way::ForUpdate).await,
            PostgresAdvisory => Connected::postgres(url, database::Way::OfSession).await,
            MariaDbUpdates => Connected::mariadb(url, database::Way::TwoUpdates).await,
            MariaDbUnique => Connected::mariadb(url, database::Way::UniqueRow).await,
            MariaDbForUpdate => Connected::mariadb(url, database::Way::ForUpdate).await,
            MariaDbGetLock => Connected::mariadb(url, database::Way::OfSession).await,
        }
    }
}

/// A rival that is ready to run.
#[derive(Clone)]
pub(crate) enum Connected {
    Ours(ours::Ours),
    Rslock(rslock::Rslock),
    Poller(poller::Poller),
    SlotPoller(poller::SlotPoller),
    TokioMutex(local::TokioMutex),
    TokioRwLock(local::TokioRwLock),
    TokioSemaphore(local::TokioSemaphore),
    Layered(Layered),
    Limited(Limited),
    Plain(Plain),
    Evalsha(Evalsha),
    OurScripts(scripts::OurScripts),
    BareZooKeeper(BareZooKeeper),
    Sqlite(Statements),
    Postgres(database::Postgres),
    MariaDb(database::Mysql),
}

impl Connected {
    async fn postgres(url: &str, way: database::Way) -> Self {
        Self::Postgres(database::Postgres::connect(url, way).await)
    }

    async fn mariadb(url: &str, way: database::Way) -> Self {
        Self::MariaDb(database::Mysql::connect(url, way).await)
    }

    pub(crate) async fn contend(self, keys: Vec<String>, window: Window) -> Vec<TaskLog> {
        match self {
            Connected::Ours(rival) => contend(rival, keys, window).await,
            Connected::Rslock(rival) => contend(rival, keys, window).await,
            Connected::Poller(rival) => contend(rival, keys, window).await,
            Connected::SlotPoller(rival) => contend(rival, keys, window).await,
            Connected::TokioMutex(rival) => contend(rival, keys, window).await,
            Connected::TokioRwLock(rival) => contend(rival, keys, window).await,
            Connected::TokioSemaphore(rival) => contend(rival, keys, window).await,
            Connected::Layered(rival) => contend(rival, keys, window).await,
            Connected::Limited(rival) => contend(rival, keys, window).await,
            Connected::Plain(rival) => contend(rival, keys, window).await,
            Connected::Evalsha(rival) => contend(rival, keys, window).await,
            Connected::OurScripts(rival) => contend(rival, keys, window).await,
            Connected::BareZooKeeper(rival) => contend(rival, keys, window).await,
            Connected::Sqlite(rival) => contend(rival, keys, window).await,
            Connected::Postgres(rival) => contend(rival, keys, window).await,
            Connected::MariaDb(rival) => contend(rival, keys, window).await,
        }
    }

    /// One cycle, for works that measure a single caller.
    pub(crate) async fn cycle<H: Future<Output = ()> + Send>(
        &self,
        key: &str,
        held: impl FnOnce() -> H + Send,
    ) {
        match self {
            Connected::Ours(rival) => rival.cycle(key, held).await,
            Connected::Rslock(rival) => rival.cycle(key, held).await,
            Connected::Poller(rival) => rival.cycle(key, held).await,
            Connected::SlotPoller(rival) => rival.cycle(key, held).await,
            Connected::TokioMutex(rival) => rival.cycle(key, held).await,
            Connected::TokioRwLock(rival) => rival.cycle(key, held).await,
            Connected::TokioSemaphore(rival) => rival.cycle(key, held).await,
            Connected::Layered(rival) => rival.cycle(key, held).await,
            Connected::Limited(rival) => rival.cycle(key, held).await,
            Connected::Plain(rival) => rival.cycle(key, held).await,
            Connected::Evalsha(rival) => rival.cycle(key, held).await,
            Connected::OurScripts(rival) => rival.cycle(key, held).await,
            Connected::BareZooKeeper(rival) => rival.cycle(key, held).await,
            Connected::Sqlite(rival) => rival.cycle(key, held).await,
            Connected::Postgres(rival) => rival.cycle(key, held).await,
            Connected::MariaDb(rival) => rival.cycle(key, held).await,
        }
    }

    /// How many requests it says it has sent, if it counts them.
    pub(crate) fn requests(&self) -> Option<u64> {
        match self {
            Connected::Ours(rival) => Some(rival.requests()),
            _ => None,
        }
    }
}

/// One multiplexed connection that never gives a slow answer up.
pub(crate) async fn multiplexed(url: &str) -> MultiplexedConnection {
    tests::resource::patient(url).await.expect("a server")
}

/// How many permits the works with permits have.
pub(crate) const PERMITS: u32 = 8;

/// The lease of every rival that has one.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// Deletes a key if it has this value.
pub(crate) const DELETE_SCRIPT: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
