//! The verbs of one claim.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::about::REVOKE;
use super::counting::Counting;
use super::fault::{self, Failure};
use super::line;
use super::liveness::End;
use super::lock_node::{LockNode, Presence};
use super::removal;
use super::session::{REQUEST_WITHIN, Session};
use super::sessions::Sessions;
use super::watch::{Events, Watch};
use crate::backend::{
    Attempt, Change, Claim, ClaimId, Fault, FaultKind, Grant, MemberClaim, Mode, Renewal, Terms,
    Withdrawal,
};
use crate::engine::clock;
use crate::key::Key;
use crate::proto::children;
use crate::token::TokenBlock;

/// The bits of a token that count the hand-offs of one claim; the others are the transaction that
/// created its node.
const HANDOFF_BITS: u32 = 12;

/// Transactions from here on leave no room for the hand-offs in 63 bits: half a million elections
/// of a leader.
pub(super) const CZXID_END: u64 = 1 << (63 - HANDOFF_BITS);

/// A hold that is over before this does not ask to be told of others, which saves two requests.
const WATCH_AFTER: Duration = Duration::from_millis(2);

/// A claim on one key at ZooKeeper: its node, what it watches, and until when it holds.
#[derive(Debug)]
pub struct ZooKeeperClaim {
    pub(super) sessions: Arc<Sessions>,
    /// The directory, or why there can be none.
    pub(super) directory: Result<Arc<str>, Fault>,
    /// The id of the next node.
    pub(super) id: ClaimId,
    pub(super) terms: Terms,
    pub(super) node: Option<Arc<LockNode>>,
    pub(super) waiting: Option<Waiting>,
    pub(super) held: Option<Held>,
    pub(super) watch: Option<Watch>,
    leaving: Option<Leaving>,
    /// Where the tokens come from in a quorum; alone, they come from the node.
    pub(super) counting: Option<Counting>,
}

/// What a waiter knows.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) ahead: u32,
    pub(super) predecessor: String,
    /// When the line was read.
    pub(super) seen: Instant,
}

/// What a holder knows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) since: Instant,
    /// When its node and the line were read.
    pub(super) looked: Instant,
    pub(super) wanted: bool,
    pub(super) revoke_requested: bool,
    pub(super) waited: bool,
}

/// A withdrawal that was not answered at once.
#[derive(Debug)]
enum Leaving {
    // ## Going => Unknown
    Going(JoinHandle<bool>, Withdrawal),
    /// The node may live on for as long as the session does at the server.
    Unknown,
}

/// The tokens of a claim whose node was created by the transaction `czxid`: as many as the claim
/// asked for, and never those of the next transaction.
pub(super) fn tokens(czxid: u64, count: u32) -> TokenBlock {
    let first = czxid << HANDOFF_BITS;
    let most = (1 << HANDOFF_BITS) - 1;
    TokenBlock::new(first, first + u64::from(count.saturating_sub(1)).min(most))
}

impl ZooKeeperClaim {
    pub(super) fn new(sessions: Arc<Sessions>, key: &Key, id: ClaimId, terms: Terms) -> Self {
        let directory = line::directory(&sessions, key).map(Arc::<str>::from);
        Self {
            sessions,
            directory,
            id,
            terms,
            node: None,
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

    /// Forgets the place in the line; what is left of it is deleted. A further one gets a node of
    /// another name, unless there is nothing that could be taken for it.
    pub(super) fn stand_outside(&mut self) {
        if self.node.take().is_some_and(|node| node.presence() != Presence::Absent) {
            self.next_id();
        }
        self.waiting = None;
        self.held = None;
        self.watch = None;
    }

    /// The next place in the line gets a node of another name.
    fn next_id(&mut self) {
        let counted = self.counting.as_mut().and_then(Counting::next_id);
        self.id = counted.unwrap_or_else(clock::random_claim_id);
    }

    /// The grant of a claim that stands first, as seen by a request that began at `began`.
    pub(super) async fn grant(
        &self,
        node: &LockNode,
        held: Held,
        began: Instant,
        until: Instant,
        tokens: TokenBlock,
    ) -> Result<Grant, Fault> {
        let liveness = &node.session.liveness;
        if !liveness.clock().is_confirmed(clock::now()) {
            let confirmed = self.sessions.home.timeout_at(until, liveness.confirmed()).await;
            if !confirmed.unwrap_or(false) {
                return Err(fault::unconfirmed());
            }
        }
        let session_left = liveness.clock().valid_until().saturating_duration_since(began);
        Ok(Grant {
            wanted: held.wanted,
            handed_on: held.waited,
            revoke_requested: held.revoke_requested,
            ..Grant::new(tokens, self.terms.lease.min(session_left))
        })
    }

    /// Looks at what a holder is told of by watches; `false` if its node is gone.
    async fn look(&mut self, node: &LockNode, name: &str, until: Instant) -> Result<bool, Failure> {
        let Ok(directory) = &self.directory else { return Ok(false) };
        let Some(held) = &mut self.held else { return Ok(false) };
        let now = clock::now();
        let is_told = self.watch.as_ref().is_none_or(Watch::is_over);
        // The word of a watch on the line can be lost with a link, so now and then it is read.
        if !is_told && !held.wanted && now < held.looked + node.session.timeout() {
            return Ok(true);
        }
        let path = node.path(name);
        let data = node.session.get(&path, until);
        let (data, children) = tokio::join!(data, node.session.list(directory, until));
        let (data, children) = match (data, children) {
            (Err(failure), _) | (_, Err(failure)) if failure.is_no_node() => return Ok(false),
            (data, children) => (data?.0, children?),
        };
        let Some(standing) = children::standing(&children, name) else { return Ok(false) };
        held.revoke_requested |= data == REVOKE;
        if is_told || held.wanted != standing.followed {
            // Set anew when the engine listens again.
            self.watch = None;
        }
        (held.wanted, held.looked) = (standing.followed, now);
        Ok(true)
    }

    /// Sets the watches of a holder.
    fn watch_as_holder(&mut self, held: Held) {
        let (Some(node), Ok(directory)) = (&self.node, &self.directory) else { return };
        let Presence::There { name, .. } = node.presence() else { return };
        let events = Events { behind: !held.wanted, revocation: !held.revoke_requested };
        let session = node.session.clone();
        self.watch = Some(Watch::of_holder(session, directory.clone(), name, events));
    }

    /// The answer to a deletion that goes on in the background.
    async fn left(&mut self, until: Instant) -> Result<Withdrawal, Fault> {
        let (task, answer) = match &mut self.leaving {
            None => return Ok(Withdrawal::NotHeld),
            Some(Leaving::Unknown) => return Err(fault::left_to_its_session()),
            Some(Leaving::Going(task, answer)) => (task, *answer),
        };
        match self.sessions.home.timeout_at(until, task).await {
            Err(_) => Err(fault::timed_out(REQUEST_WITHIN)),
            Ok(Ok(true)) => {
                self.leaving = None;
                Ok(answer)
            }
            // The session was given up.
            Ok(_) => {
                self.leaving = Some(Leaving::Unknown);
                Err(fault::left_to_its_session())
            }
        }
    }
}

impl Claim for ZooKeeperClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        if self.terms.mode != Mode::Exclusive {
            return Err(Fault::new(FaultKind::Refused, "`zookeeper:` serves exclusive locks only"));
        }
        let began = clock::now();
        let until = began + REQUEST_WITHIN;
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
        if let (Some(held), None) = (self.held, &self.watch) {
            self.sessions.home.sleep_until(held.since + WATCH_AFTER).await;
            self.watch_as_holder(held);
        }
        match &mut self.watch {
            Some(watch) => watch.over().await,
            None => std::future::pending().await,
        }
        Change::Here
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        let began = clock::now();
        let until = began + REQUEST_WITHIN;
        let (Some(node), Some(_)) = (self.node.clone(), self.held) else {
            return Ok(Renewal::Lost);
        };
        let Presence::There { name, .. } = node.presence() else {
            self.stand_outside();
            return Ok(Renewal::Lost);
        };
        let looked = match node.extend(began + self.terms.lease) {
            true => self.look(&node, &name, until).await,
            false => Err(Failure::Over),
        };
        match (looked, self.held) {
            (Ok(true), Some(held)) => {
                let grant = self.grant(&node, held, began, until, TokenBlock::empty()).await;
                if !node.is_lost() {
                    return grant.map(Renewal::Held);
                }
            }
            (Ok(_), _) => node.is_gone(),
            (Err(Failure::Over), _) => {}
            (Err(failure), _) => return Err(failure.into_fault()),
        }
        self.stand_outside();
        Ok(Renewal::Lost)
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        let until = clock::now() + REQUEST_WITHIN;
        if self.leaving.is_some() {
            return self.left(until).await;
        }
        let held = self.held.take().is_some();
        let answer = if held { Withdrawal::Released } else { Withdrawal::NotHeld };
        self.waiting = None;
        // Kept until the end: it falls silent by itself with the node.
        let _watch = self.watch.take();
        // From here on its drop deletes it.
        let Some(node) = self.node.take() else { return Ok(Withdrawal::NotHeld) };
        let mut refused = None;
        if let Presence::There { name, .. } = node.presence() {
            match node.session.delete(&node.path(&name), until).await {
                Ok(()) => {
                    node.is_gone();
                    return Ok(answer);
                }
                Err(failure) if failure.is_no_node() => {
                    node.is_gone();
                    return Ok(Withdrawal::NotHeld);
                }
                // Tried again below, for as long as it takes.
                Err(failure) => {
                    refused = Some(failure.into_fault()).filter(|fault| !fault.is_transient());
                }
            }
        }
        self.next_id();
        match (node.session.liveness.ended(), node.give_up()) {
            (Some(End::Expired), _) | (None, None) => return Ok(Withdrawal::NotHeld),
            (Some(End::GivenUp), _) => self.leaving = Some(Leaving::Unknown),
            (None, Some(removal)) => {
                let task = removal::start(&node.session, removal);
                self.leaving = Some(Leaving::Going(task, answer));
            }
        }
        // The caller need not wait for what will not pass by itself.
        match refused {
            Some(fault) => Err(fault),
            None => self.left(until).await,
        }
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
