//! Locks on ZooKeeper (3.5 or later; tested with 3.8), in the format of Apache Curator's
//! `InterProcessMutex`, `InterProcessReadWriteLock`, `InterProcessSemaphoreV2` and `LeaderLatch`. A
//! Rust service and a Java service that use one path stand in one line.
//!
//! | node | kind | holds | lives |
//! |---|---|---|---|
//! | `<root>/<key>` | container | the line | until the server finds it empty |
//! | `<root>/<key>/_c_<claim id>-lock-<number>` | ephemeral | host, process, name of a claim | until it is withdrawn |
//! | `…-__WRIT__<number>`, `…-__READ__<number>` | ephemeral | the same | the same |
//! | `…-latch-<number>` | ephemeral | what a candidate publishes | the same |
//! | `<root>/<key>/locks`, `<root>/<key>/leases` | container | who wants a permit, who has one | until the server finds them empty |
//! | `<root>/<key>/leases/_c_<claim id>-slot<permit>of<permits>-lease-<number>` | ephemeral | host, process, name of a claim | until it is withdrawn |
//! | `<root>/{lock-sessions}/<session id>` | ephemeral | nothing | as long as the session |
//! | `<root>/{lock-tokens}/<slot>` | persistent | a token counter, at a member of a quorum | for good; 1,024 of them at most |
//! | `<root>/{lock-quorum}` | persistent | which quorum the server is a member of | for good |
//!
//! The claim with the lowest number holds the key, and readers at the head of the line hold it
//! together (`protocol/children`). Each other claim watches a node before its own.
//!
//! A holder must know in time that its session is gone, and no answer to a ping or a read can tell
//! it. So the session writes to its own node at a third of its timeout. A hold counts as good for
//! two thirds from the last answered write (`protocol/clock.rs`). The client's own word that a link
//! is suspended or a session has expired comes too late for that: no hold waits for it.
//!
//! A server on its own can be a member of a [`Quorum`](crate::quorum::Quorum). Then the tokens come
//! from counters that only the holder of a key moves. They do not come from transaction ids, as
//! each server has its own.
//!
//! All sessions of a process live on one thread, `lock-io` (`backend::io`): the client library's
//! task, the keeper, watches, removals. It starts with the first client or member, and ends with
//! the last after the farewells: a session's drop starts a task there that keeps the thread until
//! the server was told, two session timeouts at most. With `Background::Runtime` renewals are the
//! application's all the same, and a hold ends with a runtime that is blocked.
//!
//! Why it is so:
//!
//! - The session writes also while it is idle, as *one* answered write does not prove enough
//!   (`protocol/clock.rs`).
//! - The id in a node's name is drawn anew for each place in the line, where Curator keeps one. A
//!   search for a node whose name was never told could otherwise meet the next node of the same
//!   claim.
//! - A node that a lost reply left is looked for behind a write of our own, not behind a `sync`,
//!   which no majority answers.
//! - A try that does not wait lists before it creates: a busy key costs it no write.
//! - Holders beside readers and permits are told of a change of the line only when somebody waits,
//!   by a task that looks 50 ms later: ten who come together cost each holder one look.
//! - A permit's node is created in one round trip with a count behind it and the deletion of the
//!   mutex, in this order whatever is lost. Not in a transaction: `create` there tells no `czxid`
//!   before 3.8.2.
//! - `lease` is kept by the client. The session would keep the node of a claim that nobody asks
//!   about, so the keeper takes it away.
//! - A holder sets its watches after 2 ms. A shorter hold does without two requests, and learns a
//!   moment later that others wait.
//! - In a quorum a grant costs one round trip more: the counter is read along with the line, and
//!   moved in one transaction with a check of the lock node and of the enrolment.
//!
//! The rooms, each of which knows those below it only:
//!
//! - `schemes`, `driver`, `connect`: ZooKeeper in the table of stores that URLs can name.
//! - `claim/`: the verbs.
//! - `line/`: who is in it, what they say of themselves, and making them leave.
//! - `member/`: a server that is a member of a quorum.
//! - `node/`: a claim's node, deleted whatever happens, and watches.
//! - `session/`: one session, opened anew after it has ended, and the requests in it.
//! - `target`, `tls`, `fault`, `names`, `about`: what a URL, an error and a node mean.
//! - `protocol/`: what ZooKeeper's answers come to. Pure.

mod about;
mod claim;
mod connect;
pub(crate) mod driver;
mod fault;
mod line;
mod member;
mod names;
mod node;
mod protocol;
mod schemes;
mod session;
mod target;
#[cfg(feature = "zookeeper-tls")]
mod tls;

use std::sync::Arc;
use std::time::Duration;

use claim::ZooKeeperClaim;
use claim::follower::ZooKeeperFollower;
use schemes::SERVERS;
use session::sessions::Sessions;
use target::Target;

use self::protocol::children::Kind;
use crate::backend::{
    Backend, Capabilities, ClaimId, ConnectError, Fault, Follower, StoreUrl, Terms,
};
use crate::key::Key;
use crate::view::{Holder, Inspection, KeyList};

/// The shortest lease that is renewed in time.
const LEASE_MIN: Duration = Duration::from_millis(100);

/// Locks at a ZooKeeper server or ensemble, in one line with Curator's. Cheap to clone; the clones
/// share one session.
#[derive(Debug, Clone)]
pub struct ZooKeeper {
    sessions: Arc<Sessions>,
    exclusive: Exclusive,
}

/// The name of Curator's in which an exclusive claim stands in line. It decides which of Java's
/// locks on the same path exclude the claim, and are excluded by it. Those of this library exclude
/// each other in either name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Exclusive {
    /// `InterProcessMutex`; `?exclusive=mutex` in a URL.
    #[default]
    Mutex,
    /// The write lock of `InterProcessReadWriteLock`; `?exclusive=writer` in a URL.
    Writer,
}

impl Exclusive {
    fn kind(self) -> Kind {
        match self {
            Self::Mutex => Kind::Mutex,
            Self::Writer => Kind::Writer,
        }
    }
}

impl ZooKeeper {
    /// Opens a session at the servers of a `zookeeper:` or `zookeeper+tls:` URL, which proves that
    /// nodes can be made under the URL's path. No runtime is needed: sessions live on `lock-io`, a
    /// thread that all stores of the process share.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Url`] for a malformed URL. [`ConnectError::Store`] when no server answers
    /// within 5 s, when the servers refuse the password or the path or are too old, and when the
    /// thread cannot be started.
    ///
    /// # Cancel safety
    ///
    /// The opening goes on for 5 s at most; the session is closed then.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::open(Target::of(&StoreUrl::parse(url, &[SERVERS])?)?).await
    }

    async fn open(target: Target) -> Result<Self, ConnectError> {
        let exclusive = target.exclusive;
        let sessions = Sessions::connect(target).await.map_err(ConnectError::Store)?;
        Ok(Self { sessions, exclusive })
    }

    /// Chooses in which of Curator's names exclusive claims stand in line, whatever the URL says.
    #[must_use]
    pub fn with_exclusive(mut self, exclusive: Exclusive) -> Self {
        self.exclusive = exclusive;
        self
    }

    /// A server on its own as a member of a quorum. It need not answer yet: nothing is sent before
    /// it is asked for something.
    ///
    /// # Errors
    ///
    /// [`ConnectError::Url`] for a malformed URL; [`ConnectError::Store`] when the thread for its
    /// session cannot be started.
    pub fn member(url: &str) -> Result<Self, ConnectError> {
        Self::member_at(Target::of(&StoreUrl::parse(url, &[SERVERS])?)?)
    }

    fn member_at(target: Target) -> Result<Self, ConnectError> {
        let exclusive = target.exclusive;
        let sessions = Sessions::new(target).map_err(ConnectError::Store)?;
        sessions.count();
        Ok(Self { sessions, exclusive })
    }
}

impl Backend for ZooKeeper {
    type Claim = ZooKeeperClaim;

    fn capabilities(&self) -> Capabilities {
        // As a member of a quorum it is asked for exclusive claims only.
        let is_alone = !self.sessions.counts();
        Capabilities {
            fencing: true,
            fifo: true,
            push: true,
            shared: is_alone,
            permits: is_alone,
            election: is_alone,
            revocation: true,
            force_release: true,
            listing: true,
            quorum: true,
            lease_min: LEASE_MIN,
            ..Capabilities::none()
        }
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> ZooKeeperClaim {
        ZooKeeperClaim::new(self.sessions.clone(), key, id, terms, self.exclusive)
    }

    fn candidate(&self, key: &Key, id: ClaimId, terms: Terms, value: &Arc<str>) -> ZooKeeperClaim {
        self.claim(key, id, terms).publishing(value)
    }

    fn follow(&self, key: &Key, _lease: Duration) -> Box<dyn Follower> {
        Box::new(ZooKeeperFollower::new(self.sessions.clone(), key))
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        line::inspect::inspect(&self.sessions, key).await
    }

    async fn holder(&self, key: &Key) -> Result<Option<Holder>, Fault> {
        line::inspect::first_holder(&self.sessions, key).await
    }

    async fn list(&self, within: Option<&Key>, max: usize) -> Result<KeyList, Fault> {
        line::inspect::list(&self.sessions, within, max).await
    }

    async fn request_revoke(&self, key: &Key) -> Result<bool, Fault> {
        line::request_revoke(&self.sessions, key).await
    }

    async fn force_release(&self, key: &Key) -> Result<bool, Fault> {
        line::force_release(&self.sessions, key).await
    }

    fn requests(&self) -> u64 {
        self.sessions.requests()
    }
}
