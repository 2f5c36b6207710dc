//! The verbs of one claim.
//!
//! - [`join`]: getting into the line, also after lost replies. [`permit`]: getting a permit.
//! - [`held`]: the grant, and what a holder looks at. [`downgrade`]: one that becomes a reader.
//! - [`election`]: standing for one. [`follower`]: following it.
//! - [`leave`]: leaving the line.
//! - [`counting`]: tokens in a quorum.

mod counting;
mod downgrade;
mod election;
pub(in crate::zookeeper) mod follower;
mod held;
mod join;
mod leave;
mod permit;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::{
    Attempt, Change, Claim, ClaimId, Fault, FaultKind, MemberClaim, Mode, Renewal, Terms,
    Withdrawal,
};
use crate::ground::{Plus as _, clock};
use crate::key::Key;
use crate::zookeeper::Exclusive;
use crate::zookeeper::fault;
use crate::zookeeper::line;
use crate::zookeeper::names;
use crate::zookeeper::node::lock_node::{LockNode, Presence};
use crate::zookeeper::node::watch::Watch;
use crate::zookeeper::protocol::children::{Kind, Permit};
use crate::zookeeper::session::sessions::Sessions;
use crate::zookeeper::session::{REQUEST_WITHIN, Session};
use counting::Counting;
use held::Held;
use leave::Leaving;

/// A claim on one key at ZooKeeper: its node, what it watches, and until when it holds.
#[derive(Debug)]
pub struct ZooKeeperClaim {
    pub(in crate::zookeeper) sessions: Arc<Sessions>,
    /// The directory with the line, or why there can be none.
    pub(in crate::zookeeper) directory: Result<Arc<str>, Fault>,
    /// The directory of permits, if it wants one.
    pub(in crate::zookeeper) leases: Option<Arc<str>>,
    /// The kind of its node in the line.
    pub(in crate::zookeeper) kind: Kind,
    /// The id of the next node.
    pub(in crate::zookeeper) id: ClaimId,
    pub(in crate::zookeeper) terms: Terms,
    /// The value that it publishes, if it stands for election.
    pub(in crate::zookeeper) value: Option<Arc<str>>,
    pub(in crate::zookeeper) node: Option<Arc<LockNode>>,
    /// The node that it is to go on with: a reader's in place of a writer's, or a permit in place of
    /// the mutex. Both begin with the same id.
    pub(in crate::zookeeper) next: Option<Arc<LockNode>>,
    /// The number of its permit.
    pub(in crate::zookeeper) slot: u32,
    stage: Stage,
    pub(in crate::zookeeper) watch: Option<Watch>,
    /// The source of the tokens in a quorum; alone, they come from the node.
    pub(in crate::zookeeper) counting: Option<Counting>,
}

/// The stage of a claim on its way through the line, as far as answers have told.
#[derive(Debug)]
enum Stage {
    // ## Outside => (Waiting | Held | Leaving)
    // It may have a node that was asked for without an answer.
    Outside,
    // ## Waiting => (Outside | Held | Leaving)
    Waiting(Waiting),
    // ## Held => (Outside | Leaving)
    Held(Held),
    // ## Leaving => Outside
    // Its nodes are a task's. It has none.
    Leaving(Leaving),
}

/// The state of a waiter.
#[derive(Debug)]
pub(in crate::zookeeper) struct Waiting {
    pub(in crate::zookeeper) ahead: u32,
    /// The node that it waits for the end of.
    pub(in crate::zookeeper) awaits: String,
    /// The time when the line was read.
    pub(in crate::zookeeper) seen: Instant,
    /// Whether it may have changed since, before the watch was set.
    pub(in crate::zookeeper) is_stale: bool,
}

impl ZooKeeperClaim {
    pub(in crate::zookeeper) fn new(
        sessions: Arc<Sessions>,
        key: &Key,
        id: ClaimId,
        terms: Terms,
        exclusive: Exclusive,
    ) -> Self {
        let key = line::directory(&sessions, key);
        let (kind, has_permits) = match terms.mode {
            Mode::Exclusive => (exclusive.kind(), false),
            Mode::Shared => (Kind::Reader, false),
            Mode::Permit { .. } => (Kind::Mutex, true),
        };
        let leases = key.as_deref().ok().filter(|_| has_permits).map(names::leases);
        let directory = key.map(|key| if has_permits { names::locks(&key) } else { key });
        Self {
            sessions,
            directory: directory.map(Arc::from),
            leases: leases.map(Arc::from),
            kind,
            id,
            terms,
            value: None,
            node: None,
            next: None,
            slot: 0,
            stage: Stage::Outside,
            watch: None,
            counting: None,
        }
    }

    /// A waiting claim asks again this often: its own lease must not end meanwhile.
    pub(in crate::zookeeper) fn recheck(&self, session: &Session) -> Duration {
        (self.terms.lease / 3).min(session.timeout() / 3)
    }

    /// Extends the lease of what it has; `false` if its node is lost.
    pub(in crate::zookeeper) fn extend(&self, node: &LockNode, began: Instant) -> bool {
        let until = began.plus(self.terms.lease);
        self.next.as_ref().is_none_or(|next| next.extend(until) || next.kind == Kind::Reader)
            && node.extend(until)
    }

    /// A further node of a claim that has one, about to be asked for.
    pub(in crate::zookeeper) fn next_node(
        &mut self,
        node: &LockNode,
        kind: Kind,
        began: Instant,
    ) -> Arc<LockNode> {
        let directory = match (kind, &self.leases) {
            (Kind::Lease, Some(leases)) => leases.clone(),
            _ => node.directory.clone(),
        };
        let until = began.plus(self.terms.lease);
        // Owned before anything is sent, so that nothing can be left behind.
        let prefix = self.prefix(kind);
        self.next
            .insert(LockNode::new(node.session.clone(), directory, kind, prefix, until))
            .clone()
    }

    /// The beginning of the next node's name.
    pub(in crate::zookeeper) fn prefix(&self, kind: Kind) -> String {
        let Some(of) = self.limit() else { return names::prefix(self.id, kind) };
        let slot = (kind == Kind::Lease).then_some(self.slot);
        names::permit_prefix(self.id, kind, Permit { slot, of })
    }

    /// Forgets the place in the line; what is left of it is deleted. A further one gets a node of
    /// another name, unless there is nothing that could be taken for it.
    pub(in crate::zookeeper) fn stand_outside(&mut self) {
        let nodes = [self.node.take(), self.next.take()];
        if nodes.iter().flatten().any(|node| node.presence() != Presence::Absent) {
            self.next_id();
        }
        self.stage = Stage::Outside;
        self.watch = None;
    }

    fn held(&self) -> Option<Held> {
        match self.stage {
            Stage::Held(held) => Some(held),
            _ => None,
        }
    }

    fn held_mut(&mut self) -> Option<&mut Held> {
        match &mut self.stage {
            Stage::Held(held) => Some(held),
            _ => None,
        }
    }

    fn waiting_mut(&mut self) -> Option<&mut Waiting> {
        match &mut self.stage {
            Stage::Waiting(waiting) => Some(waiting),
            _ => None,
        }
    }

    /// The next place in the line gets a node of another name.
    pub(in crate::zookeeper) fn next_id(&mut self) {
        let counted = self.counting.as_mut().and_then(Counting::next_id);
        self.id = counted.unwrap_or_else(ClaimId::random);
    }

    /// Tokens of a quorum come from counters, which only one holder at a time can move.
    fn check(&self, mode: Mode) -> Result<(), Fault> {
        let is_member = self.counting.is_some() || self.sessions.counts();
        if mode == Mode::Exclusive || !is_member {
            return Ok(());
        }
        let what = "a member of a quorum serves exclusive locks only";
        Err(Fault::new(FaultKind::Refused, what))
    }
}

impl Claim for ZooKeeperClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        self.check(self.terms.mode)?;
        self.check_value()?;
        let began = clock::now();
        let until = began.plus(REQUEST_WITHIN);
        loop {
            if let Some(attempt) = self.advance(began, until).await? {
                return Ok(attempt);
            }
            if clock::now() >= until {
                return Err(fault::timed_out(REQUEST_WITHIN));
            }
        }
    }

    async fn changed(&mut self) -> Change {
        self.watch_as_holder().await;
        match &mut self.watch {
            Some(watch) => watch.over().await,
            None => std::future::pending().await,
        }
        Change::Here
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        self.extend_hold().await
    }

    async fn downgrade(&mut self) -> Result<Renewal, Fault> {
        self.check(Mode::Shared)?;
        self.become_reader().await
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        self.leave().await
    }
}

impl MemberClaim for ZooKeeperClaim {
    fn count_from(&mut self, clock: u64) {
        self.count(clock);
    }

    async fn raise(&mut self, to: u64) -> Result<bool, Fault> {
        self.raise_to(to).await
    }
}
