//! Locks on one Redis server (6.2 or later; tested with 7.0), on the master that sentinels name, or
//! on a cluster (7.0 or later).
//!
//! The lock itself is the well-known layout `SET key random NX PX`, so any client of that pattern
//! excludes us and we exclude it. Beside it there is a line in order of arrival. So one script
//! takes the key from the process that releases it, and hands it to the next. docs/redis.md has all
//! keys, owners, pushes and tokens, and what two versions do to each other.
//!
//! Several who hold a key together stand beside it, by the end of their leases, and the key says so
//! in place of an owner. So who wants it alone is kept out by the one `SET … NX` that it makes
//! anyway. A member of a quorum has no such keys, as each would let in others.
//!
//! A free key costs the server as little as can be:
//!
//! - The first attempt sets the key, and looks at nothing unless that fails.
//! - A waiter marks the holder, so that a release looks for a line only where there is one.
//! - One key a server, the clock, has the highest token ever given.
//!
//! # Why it is so
//!
//! - A claim is written `<claim id>:<session>`: a release must know on which channel to push,
//!   without a further key.
//! - The queue is a list, and `lock:{K}:due` has the deadlines of waiters. The order of arrival
//!   needs no clock, so a server whose clock jumps keeps it.
//! - At a member of a quorum the fence holds `last:count`, so a claim whose answer was lost is told
//!   the same tokens.
//! - A claim in line that finds the key free hands it to the head of the line: nobody is woken when
//!   a lease ends.
//! - A pushed grant counts only if its last token is above the one that the last blocked answer
//!   told. A push that was long on its way would otherwise make two holders.
//! - A withdrawal after a doubtful attempt is sent over the connection of that attempt as well. A
//!   server that hung may execute the attempt later, and only on one connection is the order sure.
//!   A task of the runtime that serves that connection sends it.
//!
//! # Timings
//!
//! | what | how long | why |
//! |---|---|---|
//! | request | 2 s | bounds each of those that a verb makes |
//! | renewal, downgrade | a sixth of the lease, 50 ms to 2 s | leaves time for another try over a new connection |
//! | renewals that fill no request (128 claims) | 5 ms apart | a thousand claims of a second share few requests |
//! | what takes a key by force | 2 s, by the clock of the server; asked for first | later it would take it from whoever came in between |
//! | recheck of a waiting claim | 0.5 s, or a third of a lease under 1.5 s; 50 ms behind a lock of another library | a lost push costs no more; it refreshes the place in line |
//! | claim lease of a pushed grant | 1.5 s, or the lease if shorter | a process that dies between grant and push blocks no longer |
//! | life of a waiter that does not ask | 1.5 s | one whose machine lost its power is skipped then |
//! | `queue`, `due` | 15 s after the last recheck | nothing is left behind |
//! | `fence`, of a quorum | 1 h after the last lease | tokens outlive a pause |
//!
//! # Folders
//!
//! The folders. Each knows those above it only:
//!
//! - `schemes`: what its URLs may hold. Pure.
//! - `protocol/`: what is said at a server. Pure.
//! - `wire/`: connections to one server, and what goes over them.
//! - `topology/`: who is asked, and whose answer counts: one server, Sentinel, a cluster.
//! - `lock/`: the verbs of a claim, and of an operator.
//! - `redisson/`: the same in the layout of Redisson.
//! - `quorum`: servers of which a majority decides.
//! - `records/`: what the idempotency engine remembers.
//! - `pools`, `driver`: Redis in the table of stores that URLs can name.

pub(crate) mod driver;
mod lock;
pub(crate) mod pools;
mod protocol;
mod quorum;
#[cfg(feature = "idempotency")]
mod records;
mod redisson;
mod schemes;
mod topology;
mod wire;

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "deadpool")]
pub use ::deadpool_redis;
use futures_util::future::BoxFuture;

use self::lock::claim::RedisClaim;
use self::lock::follower::RedisFollower;
use self::lock::{LEASE_MIN, member, operator};
use self::protocol::layout::Layout;
#[cfg(feature = "idempotency")]
pub use self::records::RedisRecords;
pub use self::redisson::Redisson;
use self::schemes::{QUORUM, STORES};
use self::topology::Topology;
use self::topology::origin::Meant;
pub use self::wire::pool::RedisPool;
use self::wire::runtime::{at_home, needs_runtime, needs_runtime_of_pools};
use crate::backend::{
    Backend, Capabilities, ClaimId, ConnectError, Enrolment, Fault, Follower, Member, Probe,
    StoreUrl, Terms, UrlError, who,
};
use crate::key::Key;
use crate::quorum::{MembershipConfig, Quorum};
use crate::view::{Holder, Inspection, KeyList};

/// Locks on one Redis server, on the master that sentinels name, or on a cluster.
#[derive(Debug)]
pub struct Redis {
    servers: Arc<Topology>,
}

impl Redis {
    /// Connects, and checks that the server will serve every verb. The URLs
    /// `redis:`, `redis+unix:`, `redis+sentinel:` and `redis+cluster:` are those of
    /// [`LockClient::connect`](crate::LockClient::connect).
    ///
    /// # Errors
    ///
    /// [`ConnectError::Url`] for a malformed URL. [`ConnectError::Store`] when
    ///
    /// - the server cannot be reached within 2 s, or no sentinel answers or knows the master;
    /// - one of them refuses the password, lacks a right (each is named) or is too old;
    /// - `pool` leads elsewhere, or is given for a cluster, where no lock goes through one.
    ///
    /// [`ConnectError::NoRuntime`] with `pool` outside of a Tokio runtime, and in one without timers
    /// or I/O.
    ///
    /// # Cancel safety
    ///
    /// A connect that was begun ends by itself, within 10 s.
    pub async fn connect(url: &str, pool: Option<RedisPool>) -> Result<Self, ConnectError> {
        Self::open(&StoreUrl::parse(url, &STORES)?, pool)?.await
    }

    /// The future is on the heap. Its type is deep, and named in full takes the caller's crate to
    /// the compiler's limits.
    fn open(
        url: &StoreUrl,
        pool: Option<RedisPool>,
    ) -> Result<BoxFuture<'static, Result<Self, ConnectError>>, ConnectError> {
        let (meant, label) = (Meant::by(url)?, who(url.label()));
        Ok(Box::pin(async move {
            let servers = match pool {
                None => at_home(Topology::connect(meant, label, None)).await?,
                // Its connections live where they are asked for.
                pool => {
                    needs_runtime_of_pools()?;
                    Topology::connect(meant, label, pool).await.map_err(ConnectError::Store)?
                }
            };
            Ok(Self { servers })
        }))
    }

    /// Connects to the quorum that a `redlock:` URL names, and waits for a majority of it. `pools`
    /// are the application's own, one for each server in the order of the URL, or none.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Url`] for a malformed URL. [`ConnectError::Pools`] for another number of
    /// pools. [`ConnectError::Store`] when no majority answers within 5 s, and when a server is a
    /// member of another quorum. [`ConnectError::NoRuntime`] outside of a Tokio runtime, and in one
    /// without timers, or with `pools` in one without I/O.
    pub async fn quorum(url: &str, pools: Vec<RedisPool>) -> Result<Quorum<Self>, ConnectError> {
        Self::open_quorum(&StoreUrl::parse(url, &[QUORUM])?, pools)?.await
    }

    fn open_quorum(
        url: &StoreUrl,
        pools: Vec<RedisPool>,
    ) -> Result<BoxFuture<'static, Result<Quorum<Self>, ConnectError>>, ConnectError> {
        let is_pooled = !pools.is_empty();
        let members = quorum::members(url, pools)?;
        let members = members.into_iter().map(|servers| Self { servers }).collect();
        let quorum =
            Quorum::managed(members, MembershipConfig::of(url)?).map_err(UrlError::from)?;
        Ok(Box::pin(async move {
            if is_pooled { needs_runtime_of_pools() } else { needs_runtime() }?;
            quorum.open().await.map_err(ConnectError::Store)?;
            Ok(quorum)
        }))
    }
}

impl Member for Redis {
    async fn probe(&self) -> Result<Probe, Fault> {
        member::probe(&self.servers).await
    }

    async fn enrol(&self, seen: &Probe, enrolment: &Enrolment) -> Result<bool, Fault> {
        member::enrol(&self.servers, seen, enrolment).await
    }

    fn serve_under(&self, enrolment: Option<&Enrolment>) {
        self.servers.gate.serve_under(enrolment);
    }
}

impl Backend for Redis {
    type Claim = RedisClaim;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fencing: true,
            fifo: true,
            push: true,
            shared: true,
            permits: true,
            election: true,
            force_release: true,
            force_acquire: true,
            listing: true,
            // A cluster is one member at most, and no quorum of its masters.
            quorum: self.servers.cluster().is_none(),
            replicas: true,
            lease_min: LEASE_MIN,
            ..Capabilities::none()
        }
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> RedisClaim {
        RedisClaim::new(self.servers.clone(), key, id, terms)
    }

    fn candidate(&self, key: &Key, id: ClaimId, terms: Terms, value: &Arc<str>) -> RedisClaim {
        self.claim(key, id, terms).publishing(value)
    }

    fn forced(&self, key: &Key, id: ClaimId, terms: Terms) -> RedisClaim {
        self.claim(key, id, terms).forcing()
    }

    fn follow(&self, key: &Key, _lease: Duration) -> Box<dyn Follower> {
        Box::new(RedisFollower::new(self.servers.clone(), key))
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        operator::inspect(&self.servers, key).await
    }

    async fn holder(&self, key: &Key) -> Result<Option<Holder>, Fault> {
        operator::holder(&self.servers, key).await
    }

    async fn list(&self, within: Option<&Key>, max: usize) -> Result<KeyList, Fault> {
        operator::list(&self.servers, within, max).await
    }

    async fn force_release(&self, key: &Key) -> Result<bool, Fault> {
        operator::force_release(&self.servers, key).await
    }

    fn requests(&self) -> u64 {
        self.servers.requests()
    }
}
