//! The verbs of one claim.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::counting::Counting;
use super::fault;
use super::held::Held;
use super::leave::Leaving;
use super::lock_node::{LockNode, Presence};
use super::names;
use super::session::{REQUEST_WITHIN, Session};
use super::sessions::Sessions;
use super::watch::Watch;
use super::{Exclusive, line};
use crate::backend::{
    Attempt, Change, Claim, ClaimId, Fault, FaultKind, Following, MemberClaim, Mode, Renewal,
    Terms, Withdrawal,
};
use crate::ground::{Plus as _, clock};
use crate::key::Key;
use crate::proto::children::{Kind, Permit};
use crate::token::TokenBlock;

/// The bits of a token that count the hand-offs of one claim; the others are the transaction that
/// created its node.
const HANDOFF_BITS: u32 = 12;

/// Transactions from here on leave no room for the hand-offs in 63 bits: half a million elections
/// of a leader.
pub(super) const CZXID_END: u64 = 1 << (63 - HANDOFF_BITS);

/// A claim on one key at ZooKeeper: its node, what it watches, and until when it holds.
#[derive(Debug)]
pub struct ZooKeeperClaim {
    pub(super) sessions: Arc<Sessions>,
    /// The directory with the line, or why there can be none.
    pub(super) directory: Result<Arc<str>, Fault>,
    /// The directory of permits, if it wants one.
    pub(super) leases: Option<Arc<str>>,
    /// What its node in the line stands for.
    pub(super) kind: Kind,
    /// The id of the next node.
    pub(super) id: ClaimId,
    pub(super) terms: Terms,
    /// What it publishes, if it stands for election.
    pub(super) value: Option<Arc<str>>,
    pub(super) node: Option<Arc<LockNode>>,
    /// The node that it is to go on with: a reader's in place of a writer's, or a permit in place of
    /// the mutex. Both begin with the same id.
    pub(super) next: Option<Arc<LockNode>>,
    /// The number of its permit.
    pub(super) slot: u32,
    /// The directory was made for the node that is asked for next.
    pub(super) made_directory: bool,
    pub(super) waiting: Option<Waiting>,
    pub(super) held: Option<Held>,
    pub(super) watch: Option<Watch>,
    pub(super) leaving: Option<Leaving>,
    /// Where the tokens come from in a quorum; alone, they come from the node.
    pub(super) counting: Option<Counting>,
}

/// What a waiter knows.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) ahead: u32,
    /// The node that it waits for the end of.
    pub(super) awaits: String,
    /// When the line was read.
    pub(super) seen: Instant,
    /// Whether it may have changed since, before the watch was set.
    pub(super) is_stale: bool,
}

/// The tokens of a claim whose node was created by the transaction `czxid`: as many as the claim
/// asked for, and never those of the next transaction.
pub(super) fn tokens(czxid: u64, count: u32) -> TokenBlock {
    let first = czxid << HANDOFF_BITS;
    let most = (1 << HANDOFF_BITS) - 1;
    TokenBlock::new(first, first + u64::from(count.saturating_sub(1)).min(most))
}

impl ZooKeeperClaim {
    pub(super) fn new(
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
            made_directory: false,
            waiting: None,
            held: None,
            watch: None,
            leaving: None,
            counting: None,
        }
    }

    /// A waiting claim asks again this often: its own lease must not end meanwhile.
    pub(super) fn recheck(&self, session: &Session) -> Duration {
        (self.terms.lease / 3).min(session.timeout() / 3)
    }

    /// Extends the lease of what it has; `false` if its node is lost.
    pub(super) fn extend(&self, node: &LockNode, began: Instant) -> bool {
        let until = began.plus(self.terms.lease);
        self.next.as_ref().is_none_or(|next| next.extend(until) || next.kind == Kind::Reader)
            && node.extend(until)
    }

    /// A further node of a claim that has one, about to be asked for.
    pub(super) fn next_node(
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

    /// How the name of the next node begins.
    pub(super) fn prefix(&self, kind: Kind) -> String {
        let Some(of) = self.limit() else { return names::prefix(self.id, kind) };
        let slot = (kind == Kind::Lease).then_some(self.slot);
        names::permit_prefix(self.id, kind, Permit { slot, of })
    }

    /// Forgets the place in the line; what is left of it is deleted. A further one gets a node of
    /// another name, unless there is nothing that could be taken for it.
    pub(super) fn stand_outside(&mut self) {
        let nodes = [self.node.take(), self.next.take()];
        if nodes.iter().flatten().any(|node| node.presence() != Presence::Absent) {
            self.next_id();
        }
        self.waiting = None;
        self.held = None;
        self.watch = None;
    }

    /// The next place in the line gets a node of another name.
    pub(super) fn next_id(&mut self) {
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

    async fn follow(&mut self) -> Result<Following, Fault> {
        self.ask_who_leads().await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokens_of_one_claim_are_below_those_of_the_next() {
        let (mut one, two) = (tokens(0x1_0000_0007, u32::MAX), tokens(0x1_0000_0008, 1));
        assert_eq!(one.left(), 4_096);
        assert_eq!(one.first(), Some(0x1_0000_0007 << 12));
        assert!(one.last() < two.first());
        assert_eq!(two.left(), 1);
        assert_eq!(one.take(), Some(0x1_0000_0007 << 12));
        assert_eq!(one.left(), 4_095, "hand-offs after the grant itself");
        assert!(tokens(CZXID_END - 1, u32::MAX).last() < Some(1 << 63));
    }
}
