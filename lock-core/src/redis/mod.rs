//! Locks on one Redis server (6.2 or later; tested with 7.0), on the master that sentinels name, or
//! on a cluster (7.0 or later).
//!
//! The lock itself is the well-known layout `SET key random NX PX`, so any client of that pattern
//! excludes us and we exclude it. Beside it there is a line in order of arrival, which lets a
//! release hand the key to the next process in the same script that takes it from the last one. All
//! keys, owners, pushes and tokens, and what two versions do to each other: docs/redis.md.
//!
//! A free key is asked for as little as can be: the first attempt sets it, and looks at nothing
//! unless that fails; who waits marks the holder, so that a release looks for a line only where
//! there is one; and one key a server, the clock, has the highest token ever given.
//!
//! The folders, each of which knows those above it only:
//!
//! - `protocol/`: what is said at a server. Pure.
//! - `wire/`: connections to one server, and what goes over them.
//! - `topology/`: who is asked, and whose answer counts: one server, Sentinel, a cluster.
//! - `lock/`: the verbs of a claim, and of an operator.
//! - `quorum`: the URL of servers of which a majority decides. `records/`: what the idempotency
//!   engine remembers.

mod lock;
mod protocol;
mod quorum;
#[cfg(feature = "idempotency")]
mod records;
mod topology;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

#[cfg(feature = "bench-util")]
pub use self::lock::bare::{BareClaim, BareSession};
use self::lock::claim::RedisClaim;
use self::lock::{member, operator};
#[cfg(feature = "idempotency")]
pub use self::records::RedisRecords;
use self::topology::Topology;
use self::topology::cluster::Target;
use self::topology::origin::Origin;
pub use self::wire::pool::RedisPool;
use crate::backend::{Backend, Capabilities, ClaimId, Enrolment, Fault, Member, Probe, Terms};
use crate::error::ConnectError;
use crate::key::Key;
use crate::quorum::{Quorum, QuorumError};
use crate::view::Inspection;

/// The shortest lease that is renewed in time over a network.
const LEASE_MIN: Duration = Duration::from_millis(100);

/// Locks on one Redis server, on the master that sentinels name, or on a cluster.
#[derive(Debug)]
pub struct Redis {
    servers: Arc<Topology>,
}

impl Redis {
    /// Connects, and checks that the server will serve every verb. The server is that of the URL,
    /// or the master that its sentinels name: see
    /// [`LockClient::connect`](crate::LockClient::connect).
    ///
    /// # Errors
    ///
    /// [`ConnectError::Url`] for a malformed URL; [`ConnectError::Store`] when the server cannot
    /// be reached within 2 s, no sentinel answers or knows the master, one of them refuses the
    /// password, lacks a right (each is named) or is too old, when `pool` leads elsewhere, and when
    /// it is given for a cluster, where no lock goes through one.
    pub async fn connect(url: &str, pool: Option<RedisPool>) -> Result<Self, ConnectError> {
        // On the heap: its type is deep, and named in full takes the caller's crate to the
        // compiler's limits.
        let connecting: BoxFuture<'_, _> = if url.starts_with("redis+cluster:") {
            Box::pin(Topology::connect_cluster(Target::parse(url)?, pool))
        } else {
            Box::pin(Topology::connect(Origin::parse(url)?, pool))
        };
        let servers = connecting.await.map_err(ConnectError::Store)?;
        Ok(Self { servers })
    }
}

impl Redis {
    /// Connects to the quorum that a `redlock:` URL names, and waits for a majority of it; `pools`
    /// are the application's own, one for each server in the order of the URL, or none.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Url`] for a malformed URL or another number of pools;
    /// [`ConnectError::Store`] when no majority answers within 5 s, and when a server is a member of
    /// another quorum.
    pub async fn quorum(url: &str, pools: Vec<RedisPool>) -> Result<Quorum<Self>, ConnectError> {
        let (members, config) = quorum::members(url, pools)?;
        let members = members.into_iter().map(|servers| Self { servers });
        let bad = |error: QuorumError| ConnectError::Url { reason: error.to_string() };
        let quorum = Quorum::managed(members.collect(), config).map_err(bad)?;
        let opening: BoxFuture<'_, _> = Box::pin(quorum.open());
        opening.await.map_err(ConnectError::Store)?;
        Ok(quorum)
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
            force_release: true,
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

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        operator::inspect(&self.servers, key).await
    }

    async fn force_release(&self, key: &Key) -> Result<bool, Fault> {
        operator::force_release(&self.servers, key).await
    }

    fn requests(&self) -> u64 {
        self.servers.requests()
    }
}
