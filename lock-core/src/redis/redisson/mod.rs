//! Locks in the layout of Redisson's `RLock`, so that services in Java and in Rust take turns at one
//! key, and a fleet moves service by service. On one Redis server, or on the master that sentinels
//! name: `?layout=redisson`.
//!
//! A lock is a hash with the name of the key: a field for its holder, `<client>:<thread>` of theirs
//! or `<claim id>:<session>` of ours, which expires with the lease. A release deletes it, and says `0`
//! on the channel of the name, at which all who wait listen. Then the first to ask has it. So there is
//! no line, and all that needs one is not served.
//!
//! - **Exclusion** is that of an `RLock`, which nothing but the hash decides.
//! - **Tokens** are those of this crate, by `lock:clock`. Where the name was an `RFencedLock`'s, whose
//!   counter stays at `redisson_lock_token:{name}`, they are above that, and it goes on above ours.
//! - **Turns.** Who waits here is in `lock:{name}:waiting`, so that operators see it, and a holder of
//!   ours is told on the channel of its session. Who waits in Java listens: a grant or a renewal counts
//!   those. When this process gives the key back for the sake of others, its own next claim that waits
//!   lets them go first, for 5 ms, or for twice the time of the release if that is more, 100 ms at most.
//! - A hold has tokens for 64 hand-offs in this process. Then it is renewed, and sees who waits.
//!
//! The files: `claim`: the verbs. `operator`: who holds a key, and to take it away. `given_back`: the
//! keys that others may have first.

mod claim;
mod given_back;
mod operator;

use std::sync::Arc;

use futures_util::future::BoxFuture;

use self::claim::RedissonClaim;
use self::given_back::GivenBack;
use super::lock::LEASE_MIN;
use super::protocol::layout::Layout;
use super::schemes::WITH_LAYOUTS;
use super::topology::Topology;
use super::topology::origin::{self, Origin};
use super::wire::runtime::at_home;
use crate::backend::{
    Backend, Capabilities, ClaimId, ConnectError, Fault, StoreUrl, Terms, UrlError, UrlPart, who,
};
use crate::key::Key;
use crate::view::Inspection;

/// Locks in the layout of Redisson's `RLock`, on one Redis server or on the master that sentinels
/// name. Exclusive ones, without a line.
#[derive(Debug)]
pub struct Redisson {
    servers: Arc<Topology>,
    given_back: Arc<GivenBack>,
}

impl Redisson {
    /// Connects, and checks that the server will serve every verb. The URLs `redis:`, `redis+unix:` and
    /// `redis+sentinel:` are those of [`LockClient::connect`](crate::LockClient::connect), with
    /// `layout=redisson`.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Url`] for a malformed URL, or one without the layout. [`ConnectError::Store`] when
    /// the server cannot be reached within 2 s, refuses the password, lacks a right (each is named), is
    /// a node of a cluster, or is too old.
    ///
    /// # Cancel safety
    ///
    /// A connect that was begun ends by itself, within 10 s.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::open(&StoreUrl::parse(url, &WITH_LAYOUTS)?)?.await
    }

    pub(super) fn open(
        url: &StoreUrl,
    ) -> Result<BoxFuture<'static, Result<Self, ConnectError>>, ConnectError> {
        if origin::layout(url)? != Layout::Redisson {
            let what = "`layout=redisson` is missing";
            return Err(UrlError::new(UrlPart::Parameters, what).into());
        }
        let (origin, label) = (Origin::of(url)?, who(url.label()));
        Ok(Box::pin(async move {
            let connecting = Topology::connect_single(Layout::Redisson, origin, label, None);
            Ok(Self { servers: at_home(connecting).await?, given_back: Arc::default() })
        }))
    }
}

impl Backend for Redisson {
    type Claim = RedissonClaim;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fencing: true,
            push: true,
            force_release: true,
            replicas: true,
            lease_min: LEASE_MIN,
            ..Capabilities::none()
        }
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> RedissonClaim {
        RedissonClaim::new(self.servers.clone(), self.given_back.clone(), key, id, terms)
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
