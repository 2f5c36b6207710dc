//! The handle that a service keeps.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::backend::{
    Backend, Capabilities, ConnectError, Driver, DynBackend, Fault, FaultKind, Prefix,
};
use crate::builder::LockBuilder;
use crate::connect;
use crate::connect::Pools;
use crate::election::Election;
use crate::engine::{Closed, KeySet, OneKey, Served, Shared};
use crate::error::{AlreadyInstalled, ListError, OperatorError, UnavailableError};
use crate::ground::clock;
use crate::key::{IntoKey, Key};
use crate::limits::NAME_BYTES_MAX;
use crate::lockable::Lockable;
use crate::memory::Memory;
use crate::options::{Background, LockOptions};
#[cfg(feature = "deadpool")]
use crate::redis::RedisPool;
use crate::view::{BusyKey, Inspection, Inspections, KeyList, ShutdownReport, Stats};

/// How many may wait for one key in one process, unless [`ClientBuilder`] says otherwise.
const WAITERS_PER_KEY_MAX: usize = 10_000;

/// Keys that the store is asked for at a time while all are inspected.
const INSPECTED_AT_ONCE: usize = 16;

static GLOBAL: OnceLock<LockClient> = OnceLock::new();

/// A client of one lock store. Cheap to clone; all clones share one connection and one line per
/// key.
///
/// A client does not survive a `fork`: the child has none of the threads that serve it, and an acquire
/// there may never return. Make the client in the child.
#[doc(alias = "mutex")]
#[derive(Debug, Clone)]
pub struct LockClient {
    shared: Arc<Shared>,
    _last: Arc<Last>,
}

/// Dropped with the last clone of a client. Guards and futures live on without it.
#[derive(Debug)]
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.forsake();
    }
}

impl LockClient {
    /// Connects to the store that a URL names.
    ///
    /// | URL | store | feature |
    /// |---|---|---|
    /// | `memory:` | in this process, private to this client | |
    /// | `memory:name` | in this process, shared by all clients that use the name | |
    /// | `redis://[user:password@]host[:port][/db]` | Redis 6.2 or later | `redis` |
    /// | `redis://…?layout=redisson` | the same, where Redisson's `RLock` is taken too: exclusive locks, in no order | `redis` |
    /// | `redis+unix://[user:password@]/path/to/socket[?db=0]` | the same over a unix socket | `redis` |
    /// | `redis+sentinel://[user:password@]host[:port][,host…]/master[/db][?…]` | the master that Redis Sentinel names | `redis` |
    /// | `redis+cluster://[user:password@]host[:port][,host…]` | Redis Cluster, 7.0 or later | `redis` |
    /// | `redlock://[user:password@]host[:port],[…@]host…[/db][?name=…&lease_max=30s]` | a majority of independent Redis servers | `redis` |
    /// | `zookeeper://[user:password@]host[:port][,host…][/path][?session=10s&exclusive=writer]` | ZooKeeper 3.5 or later | `zookeeper` |
    /// | `zookeeper+quorum://[user:password@]host[:port],host…[/path][?session=10s&name=…&lease_max=30s]` | a majority of independent ZooKeeper servers | `zookeeper` |
    /// | `etcd://[user:password@]host[:port][,host…][/path][?session=10s]` | etcd 3.4 or later | `etcd` |
    /// | `sqlite://path[?table=lock_leases&create=true]` | a SQLite file of this machine | `sqlite` |
    /// | `sqlite::memory:` | SQLite in this process, for tests | `sqlite` |
    /// | `postgres://[user:password@]host[:port][/db][?table=…&schema=…&create=true&durability=async&connections=4]` | PostgreSQL 14 or later | `postgres` |
    /// | `mysql://[user:password@]host[:port]/db[?table=…&create=true&connections=4]` | MySQL 8.0 or later, MariaDB 10.6 or later | `mysql` |
    /// | `mariadb://…` | the same | `mysql` |
    ///
    /// **TLS** is `+tls` at the end of the scheme, whichever it is:
    ///
    /// - `redis+tls://…` (`rediss://…` is the same), `redis+sentinel+tls://…` (to the sentinels
    ///   too), `redis+cluster+tls://…` and `redlock+tls://…` need the feature `redis-tls`. They
    ///   trust the certificates of the platform.
    /// - `zookeeper+tls://…?ca=FILE[&cert=FILE&key=FILE]` and `zookeeper+quorum+tls://…` need
    ///   `zookeeper-tls`. They trust the certificate of the file `ca`. `cert` and `key` say who the
    ///   client is, and are given together. Files are in PEM.
    /// - `etcd+tls://…?ca=FILE[&cert=FILE&key=FILE]` needs `etcd-tls`, and is as ZooKeeper's.
    /// - `postgres+tls://…[?ca=FILE&cert=FILE&key=FILE]` needs `postgres-tls`, and `mysql+tls://…`
    ///   (`mariadb+tls://…`) with the same needs `mysql-tls`. They trust the
    ///   certificates of the platform and that of `ca`, and the name of the host must be in the
    ///   server's.
    ///
    /// There is no fallback to plain text, and no way to skip a certificate.
    ///
    /// | part | of which schemes | default | bounds |
    /// |---|---|---|---|
    /// | hosts | `redis`, `postgres`, `mysql` | | 1 |
    /// | | `redis+sentinel`: sentinels | | 1 to 16 |
    /// | | `redis+cluster`: nodes, which name the others; `zookeeper`: servers of one ensemble; `etcd`: members of one cluster | | 1 to 64 |
    /// | | `redlock`, `zookeeper+quorum`: servers that know nothing of each other | | 3 to 9, each once |
    /// | port | Redis; a sentinel; ZooKeeper; PostgreSQL; MySQL; etcd | 6379; 26379; 2181; 5432; 3306; 2379 | 1 to 65535 |
    /// | `user:password@` | all with hosts; of `redlock`, each host may have its own, and the first host's is that of those without | none; of `postgres` what `PGUSER` and `PGPASSWORD` say; of `mysql` the user `root` | |
    /// | `:password@` | Redis: the default user | | |
    /// | `/db` or `db` | Redis: the number of the database; of a cluster `/0` or none | 0 | 0 to 65535 |
    /// | `/db` | `postgres`, `mysql`: the name of the database | that of the user; of `mysql` none, and it is needed | no `/` |
    /// | `/master` | `redis+sentinel`: what the sentinels call the master | | no blanks |
    /// | `/path` | ZooKeeper: where the lock directories are | the root | legal at ZooKeeper, not below `/zookeeper` |
    /// | `/path` | `etcd`: what the keys begin with, and a slash behind it; with two slashes a slash before it too | nothing | |
    /// | `path` | `sqlite`: the file, from the working directory; with three slashes from the root | | no folder |
    /// | `table` | `sqlite`, `postgres`, `mysql`: the table of the leases | `lock_leases` | a lower-case name of up to 48 letters, digits and `_` |
    /// | `schema` | `postgres`: where the table is | the first of the `search_path` | as `table` |
    /// | `create` | `sqlite`, `postgres`, `mysql`: whether a file and tables that are missing are made | `false`; `true` in memory | `true`, `false` |
    /// | `durability` | `postgres`: what is on the server's disk before a grant is answered: all, or nothing; `mysql` has the first alone | `full` | `full`, `async` |
    /// | `connections` | `postgres`, `mysql`: the most connections; of `postgres` beside the one that listens | `4` | 1 to 64 |
    /// | `layout` | `redis`, `redis+unix`, `redis+sentinel`: whose locks they are | those of this crate | `redisson` |
    /// | `sentinel_user`, `sentinel_password` | `redis+sentinel`: as whom to log in there | no login | a user needs a password |
    /// | `session` | ZooKeeper: the timeout to ask for; the server narrows it to 2 to 20 of its ticks | `10s` | `100ms` to `10m` |
    /// | `session` | `etcd`: the TTL of the lease that all locks of the client are under | `10s` | `2s` to `10m`, whole seconds |
    /// | `prefix` | all: what all keys of the client are below, see [`ClientBuilder::prefix`] | none | 1 to 128 bytes encoded |
    /// | `name` | quorums: what all clients call it | the sorted list of hosts | 1 to 128 bytes |
    /// | `lease_max` | quorums: the longest lease | `30s` | `1s` to `1h` |
    ///
    /// The rules for what may stand in each part, and for what is percent-encoded, are the same for
    /// all: see [`backend::url`](crate::backend::url). A store of your own has a scheme of its own:
    /// [`ClientBuilder::driver`].
    ///
    /// # Sentinel
    ///
    /// All sentinels are asked at once, so a dead one costs nothing. Those that they name are
    /// learnt, up to 16.
    ///
    /// The client follows a failover by the messages of the sentinels, and asks them every second
    /// beside that. From then on nothing counts that the old master still answers, grants or
    /// renews. Those who wait and those who hold ask the new one at once. A hold that the new
    /// master does not know is lost then ([`LossReason::Taken`](crate::error::LossReason::Taken)).
    ///
    /// Replication is asynchronous, so **a failover can lose the last grants**. Two may then hold a
    /// key until the first is told. The fencing tokens tell them apart: they grow over a failover
    /// as long as the clocks of the servers differ by less than a failover takes
    /// (`down-after-milliseconds` at least). [`replicas`](crate::LockOptions::replicas) makes such
    /// a loss unlikely: a grant that all replicas have acknowledged is known to each that may be
    /// promoted. A renewal may be lost too. Then the hold ends at the new master earlier than its
    /// holder thinks, until the holder asks there, which it does at once after the switch.
    ///
    /// A client that is cut off from all sentinels together with the old master is told nothing,
    /// and goes on there. Against that, set `min-replicas-to-write 1` (and `min-replicas-max-lag`)
    /// at the servers: a master without its replicas then refuses to grant and to renew. Where it
    /// is not set, connecting warns. While no sentinel answers, the client goes on with the last
    /// master; without a majority of sentinels there is no other.
    ///
    /// The rights at the servers are those of one server. Two more are of use: `+role`, so that a
    /// server that is no master any more is found at connect, and `+info`, which a pool needs. At
    /// the sentinels: `+sentinel +subscribe` and the channels `+switch-master`, `+promoted-slave`
    /// and `+failover-state-reconf-slaves`.
    ///
    /// # ZooKeeper
    ///
    /// The key `order:42` is Curator's `InterProcessMutex` on `<path>/order:42`. User and password
    /// are for the scheme `digest`.
    ///
    /// Sessions live on a thread of their own, `lock-io`, one for all clients of the process
    /// and for all members of a quorum. It starts with the first of them and ends with the last,
    /// when their sessions are closed at the servers. A blocked or starved runtime of the
    /// application loses no session; whether it loses a lease is up to
    /// [`background`](ClientBuilder::background).
    ///
    /// # SQLite
    ///
    /// A file that the processes of one machine share, see `sql`. The table must be there:
    /// `sql::migrate` makes it, and `?create=true` does so at connect. Who is served on it, and what
    /// it costs, is in the page `docs/sql.md` of the repository.
    ///
    /// # PostgreSQL
    ///
    /// A table in a database of yours, see `sql` and the same page. It needs `SELECT`, `INSERT`,
    /// `UPDATE` and `DELETE` on its table. A server that takes no writes is refused. A pooler that
    /// gives each transaction another connection (pgbouncer) is served without pushes.
    ///
    /// # MySQL and MariaDB
    ///
    /// As PostgreSQL, with the same rights, and without pushes: whoever waits looks, the more often
    /// the nearer it is to its turn. The tests run on MariaDB.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Url`] for an unknown or malformed URL: it says in which part, and never
    /// repeats a password. [`ConnectError::Store`] when the store refuses or cannot be reached, and
    /// when the thread for its sessions cannot be started. [`ConnectError::NoRuntime`] for
    /// quorums, and with pools of the application, outside of a Tokio runtime and in one without
    /// timers; with pools also in one without I/O.
    ///
    /// # Executors
    ///
    /// Connections live on threads of this library, whatever becomes of the runtimes of the
    /// application. A quorum, and any store through pools of the application, is connected to inside
    /// of a Tokio runtime that was built with `enable_all`. All else but idempotency works on any
    /// executor, and in a runtime without timers, which counts as none. Tokio tells that a runtime has
    /// no timers by a panic alone. It is caught, and printed where a thread meets another such runtime than
    /// before; under `panic = "abort"` it ends the process, so build runtimes with `enable_time` there.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when it is dropped; what was being opened is closed within some
    /// seconds.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).connect().await
    }

    /// Connects with choices of your own.
    pub fn builder(url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::of(Store::At(url.into()))
    }

    /// A store of its own in this process: nobody else can share its locks.
    #[must_use]
    pub fn memory() -> Self {
        Self::with_backend(Memory::new())
    }

    /// A client of a backend of your own, see [`backend`](crate::backend).
    #[must_use]
    pub fn with_backend(backend: impl Backend) -> Self {
        Self::make(Arc::new(backend), LockOptions::default(), WAITERS_PER_KEY_MAX, None, None)
    }

    /// The same with choices of your own: those of a client that a URL names, except for what
    /// belongs to the URL.
    ///
    /// ```
    /// use std::time::Duration;
    /// use lock_core::memory::Memory;
    /// use lock_core::{LockClient, LockOptions};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // One set of choices for the store of the tests and for that of production.
    /// let store = match std::env::var("LOCKS") {
    ///     Ok(url) => LockClient::builder(url),
    ///     Err(_) => LockClient::builder_with(Memory::new()),
    /// };
    /// let locks = store
    ///     .defaults(LockOptions::new().with_wait(Duration::from_secs(2)))
    ///     .waiters_per_key_max(500)
    ///     .connect()
    ///     .await?;
    /// # assert_eq!(locks.defaults().wait, Duration::from_secs(2));
    /// # Ok(()) }
    /// ```
    pub fn builder_with(backend: impl Backend) -> ClientBuilder {
        ClientBuilder::of(Store::Here(Arc::new(backend)))
    }

    fn make(
        backend: Arc<dyn DynBackend>,
        defaults: LockOptions,
        waiters: usize,
        background: Option<Background>,
        label: Option<&'static str>,
    ) -> Self {
        let shared = Arc::new(Shared::new(backend, defaults, waiters, background, label));
        Self { _last: Arc::new(Last(shared.clone())), shared }
    }

    /// Begins an acquire of `key`. A bad key is reported when the acquire is awaited.
    #[doc(alias = "mutex")]
    #[inline]
    pub fn lock<K: IntoKey>(&self, key: K) -> LockBuilder {
        LockBuilder::new(self.shared.clone(), OneKey(key.into_key()))
    }

    /// Begins an acquire of several keys at once, all or none: 1 to
    /// [`KEYS_MAX`](crate::limits::KEYS_MAX), in any order. See [`multi`](crate::multi). What is
    /// wrong with them is reported when the acquire is awaited.
    pub fn lock_all<I>(&self, keys: I) -> LockBuilder<KeySet>
    where
        I: IntoIterator,
        I::Item: IntoKey,
    {
        self.begin(KeySet::collect(keys))
    }

    /// Begins an acquire of what was made a key, or several, already.
    pub(crate) fn begin<K: Lockable>(&self, what: K) -> LockBuilder<K> {
        LockBuilder::new(self.shared.clone(), what)
    }

    /// An election among all processes that name the same `key`. A bad key is reported when the
    /// election is used.
    #[doc(alias("leader", "leader election"))]
    pub fn election<K: IntoKey>(&self, key: K) -> Election {
        Election::new(self.shared.clone(), key.into_key())
    }

    /// Asks the store who holds a key and who waits for it.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] for a bad key, or when the store does not answer.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn inspect<K: IntoKey>(&self, key: K) -> Result<Inspection, OperatorError> {
        let key = self.shared.checked(key.into_key())?;
        let answer = Served::new(&self.shared, self.shared.backend.inspect(&key)).await;
        answer.map_err(|fault| UnavailableError::new(key, fault).into())
    }

    /// Asks the store which keys somebody holds, in any process, and who holds them and waits: of `max`
    /// keys at most. Those of this client's [`prefix`](crate::ClientBuilder::prefix), if it has one.
    /// A key that is waited for and not held, as between two holders, may be among them or not.
    ///
    /// It is for people who watch a fleet: the store is asked once for each key, and once or more for
    /// the list. Redis looks at all that is in the database, for up to 2 s. A key at which something
    /// is stored that is no lock is left out.
    ///
    /// # Errors
    ///
    /// [`ListError`] when the store cannot list its keys
    /// ([`Capabilities::listing`](crate::backend::Capabilities) says so beforehand), or does not answer.
    ///
    /// # Cancel safety
    ///
    /// It only reads.
    pub async fn inspect_all(&self, max: usize) -> Result<Inspections, ListError> {
        if !self.shared.capabilities.listing {
            return Err(ListError::Unsupported);
        }
        let backend = &self.shared.backend;
        let seen = async {
            let KeyList { keys, is_whole } = backend.list(None, max).await?;
            let each = keys.into_iter().map(|key| async {
                let seen = match backend.inspect(&key).await {
                    // It hides no other key.
                    Err(fault) if fault.kind() == FaultKind::ForeignValue => Inspection::default(),
                    seen => seen?,
                };
                Ok::<_, Fault>((key, seen))
            });
            let seen = stream::iter(each).buffer_unordered(INSPECTED_AT_ONCE);
            let mut keys: Vec<_> = seen.try_collect().await?;
            keys.retain(|(_, seen)| !(seen.holders.is_empty() && seen.waiters.is_empty()));
            keys.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            Ok(Inspections { keys, is_whole })
        };
        let answer = Served::new(&self.shared, seen).await;
        answer.map_err(|fault| ListError::Unavailable(fault.into()))
    }

    /// Asks whoever holds a key, in any process, to give it up; `false` if nobody holds it.
    ///
    /// It is a request: the holder is told by
    /// [`LockHandle::revoke_requested`](crate::LockHandle::revoke_requested), and stays the holder
    /// until it lets go or its hold ends. When it lets go, the key goes to the next in the store's
    /// line, so stand in line to have it. Those who hold the key later are not asked.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] for a bad key, when the store cannot ask
    /// ([`Capabilities::revocation`](crate::backend::Capabilities) says so beforehand), or when it does not
    /// answer. Without an answer it is not known whether the holder was asked; asking again does no
    /// harm.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the request may have gone out; asking again does no harm.
    pub async fn request_revoke<K: IntoKey>(&self, key: K) -> Result<bool, OperatorError> {
        let key = self.shared.checked(key.into_key())?;
        if !self.shared.capabilities.revocation {
            return Err(OperatorError::Unsupported { key, capability: "revocation" });
        }
        let answer = Served::new(&self.shared, self.shared.backend.request_revoke(&key)).await;
        answer.map_err(|fault| UnavailableError::new(key, fault).into())
    }

    /// Takes a key away from whoever holds it, in any process. The next in the store's line gets
    /// it, as after a release by the holder. `false` if nobody holds it.
    ///
    /// For operators, when a holder hangs and its lease goes on. The holder is told that its hold
    /// is lost ([`LossReason::Taken`](crate::error::LossReason::Taken)): at once where the store pushes,
    /// else at its next renewal, a third of its lease later at most. **Until then two may be at
    /// work**, and what the old one has sent may arrive later still. Only the fencing token keeps
    /// those writes out: that of the next holder is greater.
    /// [`request_revoke`](Self::request_revoke) asks politely, and
    /// [`force_acquire`](crate::LockBuilder::force_acquire) takes the key for its caller.
    ///
    /// It takes the key from whoever holds it when the request arrives, a client of another
    /// library too. Tasks that wait in the old holder's process join the end of the line.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] for a bad key, when the store cannot do it
    /// ([`Capabilities::force_release`](crate::backend::Capabilities) says so beforehand), or when it does
    /// not answer. Without an answer it is not known whether the key was taken away. Doing it again
    /// may meet the next holder; [`inspect`](Self::inspect) tells who holds it.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the request may have gone out; see the errors.
    pub async fn force_release<K: IntoKey>(&self, key: K) -> Result<bool, OperatorError> {
        let key = self.shared.checked(key.into_key())?;
        if !self.shared.capabilities.force_release {
            return Err(OperatorError::Unsupported { key, capability: "force_release" });
        }
        let answer = Served::new(&self.shared, self.shared.backend.force_release(&key)).await;
        answer.map_err(|fault| UnavailableError::new(key, fault).into())
    }

    /// Refuses new acquires, ends all waits with [`Closed`](crate::AcquireError::Closed), and waits
    /// up to `deadline` for the guards to be released. Holds that are left then are told that they
    /// are lost, and are withdrawn; this takes 2 s more at most. A deadline of any length is good,
    /// [`Duration::MAX`] waits for the last guard.
    ///
    /// # The end of a server
    ///
    /// Call it *beside* the server's own graceful shutdown, not after that. The server waits for
    /// its handlers, and some of them wait for a lock. Streams that show locks
    /// (`lock_tower::inspect`) end with the client. [`closed`](Self::closed) is the one signal for
    /// all of them.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use lock_core::LockClient;
    /// # async fn serve(stop: impl Future<Output = ()>) { stop.await }
    /// # async fn signal() {}
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const WITHIN: Duration = Duration::from_secs(20);
    ///
    /// let locks = LockClient::connect("memory:").await?;
    /// // With axum: `axum::serve(listener, app).with_graceful_shutdown(locks.closed())`.
    /// let serving = tokio::spawn(serve(locks.closed()));
    ///
    /// signal().await; // ctrl-c or SIGTERM
    /// let (report, served) = tokio::join!(
    ///     locks.shutdown(WITHIN),
    ///     // A client that does not read its answer would keep the server open.
    ///     tokio::time::timeout(WITHIN + Duration::from_secs(5), serving),
    /// );
    /// # served??;
    /// assert!(report.complete);
    /// # Ok(()) }
    /// ```
    ///
    /// - A handler that has its lock goes on. One that waits is told
    ///   [`Closed`](crate::AcquireError::Closed) at once, by the layer as 503 `lock_closed`. So is
    ///   a handler that asks for a further lock now. Where a handler must not be stopped between
    ///   two locks, stop the server first, give the handlers some seconds, and then shut the client
    ///   down.
    /// - Choose the deadline above the time that your handlers take. Choose the server's bound a
    ///   few seconds above the deadline, as handlers that are stopped at the deadline answer, too.
    /// - Handlers that outlive their clients (`detach_on_disconnect`, and those behind an
    ///   `IdempotencyLayer`) belong to no connection. They hold their locks, so `shutdown` waits
    ///   for them all the same. After it, `Idempotency::idle` waits for the last of their records.
    ///
    /// `examples/examples/graceful_shutdown.rs` shows it with a handler at work, one that waits,
    /// one whose client is gone, and an open stream.
    ///
    /// # Cancel safety
    ///
    /// The client stays closed; guards that are still held release as ever.
    pub async fn shutdown(&self, deadline: Duration) -> ShutdownReport {
        self.shared.close();
        let begun: Instant = clock::now();
        let mut abandoned = 0;
        let mut quiet = self.shared.quiet(deadline).await;
        if !quiet {
            abandoned = self.shared.abandon();
            quiet = self.shared.quiet(crate::engine::RELEASE_WITHIN).await;
        }
        let took = clock::now().saturating_duration_since(begun);
        ShutdownReport { abandoned, complete: quiet, took }
    }

    /// Whether [`shutdown`](Self::shutdown) was called on any clone of this client.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Resolves when [`shutdown`](Self::shutdown) is called on any clone of this client, at once if
    /// it was before. It borrows nothing, so it can end a server's accepting
    /// (`with_graceful_shutdown(locks.closed())`), a stream of events, or a task that waits for
    /// work.
    ///
    /// It tells that the shutdown has *begun*: locks may still be held until `shutdown` returns.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping it; a later one resolves at once.
    pub fn closed(&self) -> Closed {
        self.shared.closed()
    }

    /// The counters since the client was made, and gauges of what is busy now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (counters, keys, waiters, held) = self.shared.counters();
        Stats {
            acquired: counters.acquired,
            handoffs_local: counters.handoffs_local,
            handoffs_remote: counters.handoffs_remote,
            timeouts: counters.timeouts,
            refused: counters.refused,
            lost: counters.lost,
            renewals: counters.renewals,
            store_requests: self.shared.backend.requests(),
            keys,
            waiters,
            held,
        }
    }

    /// The keys that are busy in this client now, in no order. Each tells who of this client holds
    /// it, how many of this client wait, and how long that took of late. [`inspect`](Self::inspect)
    /// asks the store, which knows of all clients.
    #[must_use]
    pub fn busy_keys(&self) -> Vec<BusyKey> {
        self.shared.busy()
    }

    /// The capabilities of the store behind this client.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.shared.capabilities
    }

    /// The prefix below which the keys of this client are at the store, see
    /// [`ClientBuilder::prefix`].
    #[must_use]
    pub fn prefix(&self) -> Option<&Key> {
        self.shared.backend.prefix()
    }

    /// The options that an acquire starts from.
    #[must_use]
    pub fn defaults(&self) -> LockOptions {
        self.shared.defaults
    }

    /// Makes this the client that `#[distributed_lock]` uses where none is named.
    ///
    /// # Errors
    ///
    /// [`AlreadyInstalled`] when there is one; it stays.
    pub fn install_global(self) -> Result<(), AlreadyInstalled> {
        GLOBAL.set(self).map_err(|_| AlreadyInstalled)
    }

    /// The client that [`install_global`](Self::install_global) set.
    #[must_use]
    pub fn global() -> Option<Self> {
        GLOBAL.get().cloned()
    }
}

/// A client in the making.
#[must_use = "nothing is connected until `connect` is awaited"]
pub struct ClientBuilder {
    store: Store,
    defaults: LockOptions,
    waiters_per_key_max: usize,
    background: Option<Background>,
    prefix: Option<String>,
    label: Option<String>,
    drivers: Vec<Driver>,
    pools: Pools,
}

/// The store of a client's locks.
enum Store {
    /// The store that this URL names, which is connected to.
    At(String),
    /// A backend of the application's own.
    Here(Arc<dyn DynBackend>),
}

impl ClientBuilder {
    fn of(store: Store) -> Self {
        Self {
            store,
            defaults: LockOptions::default(),
            waiters_per_key_max: WAITERS_PER_KEY_MAX,
            background: None,
            prefix: None,
            label: None,
            drivers: Vec::new(),
            pools: Pools::default(),
        }
    }

    /// The options that every acquire of this client starts from.
    pub fn defaults(mut self, defaults: LockOptions) -> Self {
        self.defaults = defaults;
        self
    }

    /// How many may wait for one key in this process (default 10,000, at least 1); the next is
    /// refused with [`Overloaded`](crate::AcquireError::Overloaded).
    pub fn waiters_per_key_max(mut self, waiters: usize) -> Self {
        self.waiters_per_key_max = waiters.max(1);
        self
    }

    /// The place where the client does what no caller waits for, such as renewals (default
    /// [`Background::Thread`]; [`Background::Runtime`] for `memory:`).
    pub fn background(mut self, background: Background) -> Self {
        self.background = Some(background);
        self
    }

    /// Puts all keys of this client below a prefix: the key `order:42` is `staging:order:42` at the
    /// store under the prefix `staging` (default: none; 1 to 128 bytes encoded, as
    /// [`Key::new`](crate::Key::new) has it). Stages and tenants may share a store:
    /// clients of two prefixes have no key in common, unless one prefix begins with the other and a
    /// `:`, as `shop` and `shop:eu`. A key may be shorter by as much and the `:`, see
    /// [`Capabilities::key_bytes_max`](crate::backend::Capabilities).
    ///
    /// Guards, errors and the lists of busy keys name the key without it. A URL says the same by
    /// `?prefix=staging`, whichever its store; what is said here counts more.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use lock_core::LockClient;
    ///
    /// let staging = LockClient::builder("memory:shop").prefix("staging").connect().await?;
    /// let canary = LockClient::connect("memory:shop?prefix=canary").await?;
    /// let held = staging.lock("order:42").await?;
    /// assert_eq!(held.key().as_str(), "order:42");
    /// assert!(canary.lock("order:42").try_acquire().await?.is_some(), "another key");
    /// # Ok(()) }
    /// ```
    #[doc(alias("namespace", "key_prefix"))]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// The text by which claims of this client say who asks, such as `checkout@web-3` (default: the host and
    /// the process id; 1 to 128 bytes, no control characters, no `_` in front). Operators see it with the
    /// [`name`](crate::LockBuilder::name) of the acquire in [`inspect`](LockClient::inspect) and on the
    /// inspector's page; at Redis this text alone, by the name of the client's connections, and not
    /// of a backend that was connected by itself. It goes to the store as it is.
    ///
    /// The text is kept for as long as the process lives, so give each client one, and not each
    /// request.
    #[doc(alias("client name", "owner", "instance"))]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Adds a store of your own to those that a URL can name, under a scheme of its own.
    ///
    /// ```
    /// use lock_core::LockClient;
    /// use lock_core::backend::{Driver, Scheme};
    /// use lock_core::memory::Memory;
    ///
    /// // In place of a store that takes servers, a login and a time.
    /// const TABLES: Scheme = Scheme::new("tables")
    ///     .with_hosts(3, 7_001)
    ///     .with_login()
    ///     .with_path()
    ///     .with_params(&["timeout"]);
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tables = Driver::new(TABLES, async |url| {
    ///     assert_eq!(url.hosts()[1].to_string(), "b:7001");
    ///     assert_eq!(url.login().map(|login| login.password()), Some("p@ss"));
    ///     let timeout = url.duration("timeout")?.unwrap_or_default();
    ///     assert_eq!(timeout.as_secs(), 2);
    ///     Ok(Memory::named(url.path()))
    /// });
    /// let url = "tables://app:p%40ss@a:7002,b/locks?timeout=2s"; // or "redis://127.0.0.1"
    /// let locks = LockClient::builder(url).driver(tables).connect().await?;
    /// locks.lock("order:42").await?.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// It may be called for several stores. A scheme that is taken, by this crate or another
    /// driver, is an error of [`connect`](Self::connect). A client of
    /// [`builder_with`](LockClient::builder_with) has no URL, and asks no driver.
    pub fn driver(mut self, driver: Driver) -> Self {
        self.drivers.push(driver);
        self
    }

    /// Sends commands through the application's own pool: of one server or of Sentinel, as the URL
    /// says. Pushes and renewals keep connections of their own, made from the URL. The URL must
    /// name the same servers and database as the pool; this is checked at connect.
    ///
    /// Beside sentinels, each request asks who answers it (the right `+info`). An answer of a
    /// server that is not the master any more does not count, and the request is made again over
    /// the client's own connection. The pool loses the connection that led there, and after a
    /// failover those that nobody uses.
    ///
    /// Beside `redis+cluster:` it is an error of [`connect`](Self::connect), and so is a pool of a
    /// cluster. Such a pool does not tell which node answered, so a former master's answer would
    /// count.
    #[cfg(feature = "deadpool")]
    pub fn redis_pool(mut self, pool: impl Into<RedisPool>) -> Self {
        self.pools.one = Some(pool.into());
        self
    }

    /// Sends commands through the application's own pools, one for each member of a `redlock:` in
    /// the order of its URL. Each must lead to its member; this is checked when the member is first
    /// reached.
    #[cfg(feature = "deadpool")]
    pub fn redis_pools<P: Into<RedisPool>>(mut self, pools: impl IntoIterator<Item = P>) -> Self {
        self.pools.each = pools.into_iter().map(Into::into).collect();
        self
    }

    /// Connects; see [`LockClient::connect`]. A backend of your own is asked nothing, so this
    /// returns at once.
    ///
    /// # Errors
    ///
    /// As [`LockClient::connect`]. [`ConnectError::Pools`] when pools were given that nothing would
    /// go through, as with a backend of your own. [`ConnectError::SchemeTaken`] and
    /// [`ConnectError::SchemeName`] for a driver whose scheme cannot be its own.
    /// [`ConnectError::Prefix`] for a prefix that is none, [`ConnectError::Label`] for such a label.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when it is dropped.
    pub async fn connect(self) -> Result<LockClient, ConnectError> {
        let own = self.prefix.as_deref().map(Prefix::new).transpose()?;
        let label = self.label.map(checked_label).transpose()?;
        let (backend, prefix) = match self.store {
            Store::At(url) => connect::backend(&url, label, self.drivers, self.pools).await?,
            #[cfg(feature = "redis")]
            Store::Here(_) if !self.pools.are_none() => {
                let reason = "there is none, only a backend: pools go with a URL".into();
                return Err(ConnectError::Pools { reason });
            }
            Store::Here(backend) => (backend, None),
        };
        let backend = match own.or(prefix) {
            Some(prefix) => prefix.over(backend),
            None => backend,
        };
        let (defaults, waiters) = (self.defaults, self.waiters_per_key_max);
        Ok(LockClient::make(backend, defaults, waiters, self.background, label))
    }
}

/// The label, for as long as the process lives: each claim has it.
fn checked_label(label: String) -> Result<&'static str, ConnectError> {
    match label.len() {
        // Words of a store's own begin with an underscore, as `__REVOKE__` does.
        1..=NAME_BYTES_MAX if !label.contains(char::is_control) && !label.starts_with('_') => {
            Ok(label.leak())
        }
        bytes => Err(ConnectError::Label { bytes }),
    }
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The URL may hold a password.
        f.debug_struct("ClientBuilder")
            .field("defaults", &self.defaults)
            .field("waiters_per_key_max", &self.waiters_per_key_max)
            .field("background", &self.background)
            .finish_non_exhaustive()
    }
}
