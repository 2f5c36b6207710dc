//! Locks on one Redis server (6.2 or later; tested with 7.0), on the master that sentinels name, or
//! on a cluster (7.0 or later).
//!
//! The lock itself is the well-known layout `SET key random NX PX`, so any client of that pattern
//! excludes us and we exclude it. Beside it there is a line in order of arrival, which lets a
//! release hand the key to the next process in the same script that takes it from the last one. All
//! keys, owners, pushes and tokens, and what two versions do to each other: docs/redis.md.
//!
//! A free key is asked for as little as can be: the first attempt sets it, and looks at nothing
//! unless that fails; who waits marks the holder, so that a release looks for a line only where there
//! is one; and one key a server, the clock, has the highest token ever given.
//!
//! - `script/`: one script per verb. - `origin`: to which server. - `sentinel`: which one is the
//!   master. - `link`: a connection that comes back. - `request`: what is sent over it. - `lanes`:
//!   connections of attempts that wait for replicas. - `inbox`: pushes, by claim. - `renewals`: in
//!   batches. - `sides`: what the conductor has for itself. - `claim`: the verbs. - `one`: a
//!   server's connections. - `cluster`: many servers that share the keys. - `gate`, `quorum`:
//!   servers of which a majority decides. - `pool`, `pooled`: an application's own connections, and
//!   whether they lead to the master. - `probe`: what is checked at connect. - `fault`: what an
//!   error means. - `records`: what the idempotency engine remembers. - `bare`: the
//!   requests of a free key without a client, for benchmarks.

#[cfg(feature = "bench-util")]
mod bare;
mod batch;
mod claim;
mod cluster;
#[cfg(test)]
mod fake;
mod fault;
mod gate;
mod inbox;
mod lanes;
mod link;
mod names;
mod node;
mod one;
mod origin;
#[cfg(feature = "deadpool")]
mod pool;
#[cfg(feature = "deadpool")]
mod pooled;
mod probe;
mod quorum;
#[cfg(feature = "idempotency")]
mod records;
mod renewals;
mod request;
mod script;
mod sentinel;
mod sides;
mod url;

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "bench-util")]
pub use bare::{BareClaim, BareSession};
use claim::RedisClaim;
use futures_util::future::BoxFuture;
use node::Node;
use origin::Origin;
#[cfg(feature = "deadpool")]
pub use pool::RedisPool;
#[cfg(feature = "idempotency")]
pub use records::RedisRecords;

use crate::backend::{Backend, ClaimId, Enrolment, Fault, Look, Member, Promises, Terms};
use crate::error::ConnectError;
use crate::inspect::Inspection;
use crate::key::Key;
use crate::quorum::Quorum;

/// The shortest lease that is renewed in time over a network.
const LEASE_MIN: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub struct Redis {
    node: Arc<Node>,
}

impl Redis {
    /// Connects, and checks that the server will serve every verb. The server is that of the URL,
    /// or the master that its sentinels name: see [`LockClient::connect`](crate::LockClient::connect).
    ///
    /// # Errors
    ///
    /// [`ConnectError::Url`] for a malformed URL; [`ConnectError::Store`] when the server cannot
    /// be reached within 2 s, no sentinel answers or knows the master, one of them refuses the password, lacks a right (each is named), is too old, or
    /// when `pool` leads elsewhere.
    pub async fn connect(
        url: &str,
        #[cfg(feature = "deadpool")] pool: Option<RedisPool>,
    ) -> Result<Self, ConnectError> {
        let connecting: BoxFuture<'_, _> = if url.starts_with("redis+cluster:") {
            let target = cluster::Target::parse(url)?;
            Box::pin(Node::connect_cluster(
                target,
                #[cfg(feature = "deadpool")]
                pool,
            ))
        } else {
            Box::pin(Node::connect(
                Origin::parse(url)?,
                #[cfg(feature = "deadpool")]
                pool,
            ))
        };
        // As in `ClientBuilder::connect`.
        let node = connecting.await.map_err(ConnectError::Store)?;
        Ok(Self { node })
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
    pub async fn quorum(
        url: &str,
        #[cfg(feature = "deadpool")] pools: Vec<RedisPool>,
    ) -> Result<Quorum<Self>, ConnectError> {
        let connecting = quorum::connect(
            url,
            #[cfg(feature = "deadpool")]
            pools,
        );
        let connecting: BoxFuture<'_, _> = Box::pin(connecting);
        connecting.await
    }
}

impl Member for Redis {
    async fn look(&self) -> Result<Look, Fault> {
        gate::look(&self.node).await
    }

    async fn enrol(&self, seen: &Look, enrolment: &Enrolment) -> Result<bool, Fault> {
        gate::enrol(&self.node, seen, enrolment).await
    }

    fn serve_under(&self, enrolment: Option<&Enrolment>) {
        self.node.gate.serve_under(enrolment);
    }
}

impl Backend for Redis {
    type Claim = RedisClaim;

    fn promises(&self) -> Promises {
        Promises {
            fencing: true,
            fifo: true,
            push: true,
            force_release: true,
            // A cluster is one member at most, and no quorum of its masters.
            quorum: self.node.cluster().is_none(),
            replicas: true,
            lease_min: LEASE_MIN,
            ..Promises::none()
        }
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> RedisClaim {
        RedisClaim::new(self.node.clone(), key, id, terms)
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        probe::inspect(&self.node, key).await
    }

    async fn force_release(&self, key: &Key) -> Result<bool, Fault> {
        probe::force_release(&self.node, key).await
    }

    fn requests(&self) -> u64 {
        self.node.requests()
    }
}
