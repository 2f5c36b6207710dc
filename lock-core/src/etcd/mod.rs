//! Locks on etcd (3.4 or later), in one line with Go's `clientv3/concurrency` and `etcdctl lock`.
//!
//! | key | value | lives |
//! |---|---|---|
//! | `<path><key>/<lease>/<claim>/x` | host, process, name of a claim that holds the key alone | until it is withdrawn, at most as long as the lease |
//! | `…/c` | what a candidate publishes | the same |
//! | `…/r`, `…/p<limit>` | host, process, name of a reader, of one with a permit | the same |
//! | `<path><key>/<lease>` | whatever Go's `Mutex` or `Election` writes | the same |
//! | `<path>{lock-sessions}/<lease>` | nothing | as long as the session, unless the database is full |
//!
//! The claim that was created first holds the key, and those behind it who can share it hold it as
//! well (`line`). Each other claim watches what stands in its way. All claims of a client are under
//! one lease, its *session*.
//!
//! A hold is good for the TTL of the session from the sending of a keepalive that was answered by
//! the leader of that time (`clock`). So a holder is told before the servers let the lease end.
//!
//! - `wire`: messages, as etcd's public API has them.
//! - `links`, `link`, `rpc`: requests, the link in use, and whether one has left over it.
//! - `login`: the login that requests are sent with.
//! - `session`: the lease, and the key that settles a write without an answer.
//! - `sessions`: a new one after one has ended.
//! - `liveness`, `keepalive`, `clock`: how a session is kept, and until when it surely lives.
//! - `lock_key`: a claim's key, deleted whatever happens.
//! - `watch`: watches.
//! - `claim`: the verbs.
//! - `join`: getting into the line, also after lost replies.
//! - `held`: the grant, what a holder looks at, and becoming a reader.
//! - `follower`: following one.
//! - `line`, `about`: names and values of keys, and what they say.
//! - `operator`: inspecting a line, asking its holders to leave, or making them.
//! - `schemes`, `driver`, `connect`: etcd in the table of stores that URLs can name.
//! - `target`, `tls`: the members that a URL names, and the files of TLS.
//! - `version`: the version of the cluster, as the leases of some cannot be relied on.
//! - `fault`: the meaning of an error of etcd.

mod about;
mod claim;
mod clock;
mod connect;
pub(crate) mod driver;
mod fault;
mod follower;
mod held;
mod join;
mod keepalive;
mod line;
mod link;
mod links;
mod liveness;
mod lock_key;
mod login;
mod operator;
mod rpc;
mod schemes;
mod session;
mod sessions;
mod target;
#[cfg(feature = "etcd-tls")]
mod tls;
mod version;
mod watch;
mod wire;

use std::sync::Arc;
use std::time::Duration;

pub use claim::EtcdClaim;
use follower::EtcdFollower;
use schemes::MEMBERS;
use sessions::Sessions;
use target::Target;

use crate::backend::{
    Backend, Capabilities, ClaimId, ConnectError, Fault, Follower, StoreUrl, Terms,
};
use crate::key::Key;
use crate::view::{Inspection, KeyList};

/// The shortest lease that is renewed in time.
const LEASE_MIN: Duration = Duration::from_millis(100);

/// Locks at an etcd cluster, in one line with those of Go's `clientv3/concurrency`. Cheap to clone;
/// the clones share one session.
#[derive(Debug, Clone)]
pub struct Etcd {
    sessions: Arc<Sessions>,
}

impl Etcd {
    /// Opens a session at the members of an `etcd:` or `etcd+tls:` URL, which proves that keys can
    /// be written under the URL's path. No runtime is needed: links live on `lock-io`, a thread that
    /// all stores of the process share.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Url`] for a malformed URL. [`ConnectError::Store`] when no member answers
    /// within 5 s, when the cluster refuses the password or the path, and when the thread cannot be
    /// started.
    ///
    /// # Cancel safety
    ///
    /// The opening goes on for 5 s at most; the session is closed then.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::open(Target::of(&StoreUrl::parse(url, &[MEMBERS])?)?).await
    }

    async fn open(target: Target) -> Result<Self, ConnectError> {
        let sessions = Sessions::connect(target).await.map_err(ConnectError::Store)?;
        let look = version::look_at(sessions.links.clone());
        // One that does not say it is asked no more.
        drop(sessions.links.home.spawn(look).await);
        Ok(Self { sessions })
    }
}

impl Backend for Etcd {
    type Claim = EtcdClaim;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fencing: true,
            fifo: true,
            push: true,
            shared: true,
            permits: true,
            election: true,
            revocation: true,
            force_release: true,
            listing: true,
            lease_min: LEASE_MIN,
            ..Capabilities::none()
        }
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> EtcdClaim {
        EtcdClaim::new(self.sessions.clone(), key, id, terms, None)
    }

    fn candidate(&self, key: &Key, id: ClaimId, terms: Terms, value: &Arc<str>) -> EtcdClaim {
        EtcdClaim::new(self.sessions.clone(), key, id, terms, Some(value))
    }

    fn follow(&self, key: &Key, _lease: Duration) -> Box<dyn Follower> {
        Box::new(EtcdFollower::new(self.sessions.clone(), key))
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        operator::inspect(&self.sessions, key).await
    }

    async fn list(&self, within: Option<&Key>, max: usize) -> Result<KeyList, Fault> {
        operator::list(&self.sessions, within, max).await
    }

    async fn request_revoke(&self, key: &Key) -> Result<bool, Fault> {
        operator::request_revoke(&self.sessions, key).await
    }

    async fn force_release(&self, key: &Key) -> Result<bool, Fault> {
        operator::force_release(&self.sessions, key).await
    }

    fn requests(&self) -> u64 {
        self.sessions.links.requests()
    }
}
