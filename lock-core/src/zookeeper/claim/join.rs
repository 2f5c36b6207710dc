//! Getting into the line, and standing in it.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::OptionFuture;
use zookeeper_client::Error;

use super::held::Held;
use super::{Stage, Waiting, ZooKeeperClaim};
use crate::backend::{Attempt, Claim, Fault, FaultKind};
use crate::ground::{Plus as _, clock};
use crate::zookeeper::fault::Failure;
use crate::zookeeper::line;
use crate::zookeeper::member::counter::Counter;
use crate::zookeeper::node::lock_node::{LockNode, Presence};
use crate::zookeeper::node::removal;
use crate::zookeeper::node::watch::{Watch, listed};
use crate::zookeeper::protocol::children::{self, Kind, Line, Permits};
use crate::zookeeper::protocol::tokens::{CZXID_END, tokens};
use crate::zookeeper::session::ticket::Ticket;
use crate::zookeeper::session::{Answer, Session};

/// Data that were read for a claim that may turn out to be the first.
#[derive(Debug, Default)]
pub(in crate::zookeeper) struct Basis {
    pub(in crate::zookeeper) ticket: Option<Ticket>,
    /// Its counter, if it has to be moved.
    pub(in crate::zookeeper) counter: Option<Counter>,
    /// The permits in use, if it wants one, read behind the line.
    pub(in crate::zookeeper) permits: Option<Answer<Vec<String>>>,
}

/// The outcome of one step; without an attempt, the next step follows.
pub(in crate::zookeeper) type Stepped = Result<Option<Attempt>, Fault>;

impl ZooKeeperClaim {
    /// One step towards an answer: at most one round trip, but two where the line is joined anew
    /// or its head has changed.
    pub(in crate::zookeeper) async fn advance(
        &mut self,
        began: Instant,
        until: Instant,
    ) -> Stepped {
        let directory = self.directory.clone()?;
        let nodes = [&self.next, &self.node].map(Option::clone);
        if let Some(lease) = nodes.into_iter().flatten().find(|node| node.kind == Kind::Lease) {
            return self.find_permit(&lease, began, until).await;
        }
        if self.node.as_ref().is_some_and(|node| node.is_lost()) {
            self.stand_outside();
        }
        let Some(node) = self.node.clone() else {
            return self.join(&directory, until).await;
        };
        if !self.extend(&node, began) {
            self.stand_outside();
            return Ok(None);
        }
        let ticket = match self.sessions.admit(&node.session, until).await {
            Ok(ticket) => ticket,
            Err(failure) => return self.not_served(&node, failure),
        };
        if let Some(blocked) = self.is_still_blocked(&node, began) {
            return Ok(Some(blocked));
        }
        match node.presence() {
            Presence::Asked => self.find(&node, &directory).await,
            Presence::There { name, .. } => {
                let counter = self.counter_to_move();
                let counter = Self::look_at_counter(&node.session, counter.as_ref(), until);
                let listed = node.session.list(&directory, until);
                let permits = self.leases.as_ref().map(|leases| node.session.list(leases, until));
                match tokio::join!(counter, listed, OptionFuture::from(permits)) {
                    (counter, Ok(children), permits) => {
                        let basis = Basis { ticket, counter, permits };
                        self.stand(&node, &name, &children, began, until, basis).await
                    }
                    (_, Err(failure), _) => self.not_served(&node, failure),
                }
            }
            Presence::Absent | Presence::GivenUp => Ok(None),
        }
    }

    /// The last answer again, if it came a moment ago and the watch that it set stands. A watch
    /// whose word was lost is made up for by reading the line whenever a recheck is due.
    fn is_still_blocked(&self, node: &LockNode, now: Instant) -> Option<Attempt> {
        let Stage::Waiting(waiting) = &self.stage else { return None };
        let stands = self.watch.as_ref().is_some_and(|watch| !watch.is_over());
        let fresh = now < waiting.seen.plus(self.recheck(&node.session));
        (stands && fresh && !waiting.is_stale).then(|| self.blocked(&node.session, waiting.ahead))
    }

    /// The claim waits for the end of this node.
    pub(in crate::zookeeper) fn wait_for(
        &mut self,
        session: &Session,
        ahead: u32,
        awaits: &str,
    ) -> Attempt {
        let seen = clock::now();
        let awaits = awaits.to_owned();
        self.stage = Stage::Waiting(Waiting { ahead, awaits, seen, is_stale: false });
        self.blocked(session, ahead)
    }

    pub(in crate::zookeeper) fn blocked(&self, session: &Session, ahead: u32) -> Attempt {
        Attempt::Blocked { ahead: Some(ahead), recheck: self.recheck(session) }
    }

    /// The outcome of a failure for a claim with a node.
    pub(in crate::zookeeper) fn not_served(
        &mut self,
        node: &LockNode,
        failure: Failure,
    ) -> Stepped {
        match failure {
            // Looked at anew: the session is over.
            Failure::Over => Ok(None),
            failure if failure.is_no_node() => {
                node.is_gone();
                Ok(None)
            }
            failure => Err(failure.into_fault()),
        }
    }

    /// Creates a node at the end of the line.
    async fn join(&mut self, directory: &Arc<str>, until: Instant) -> Stepped {
        let session = self.sessions.get(until).await?;
        let ticket = match self.sessions.admit(&session, until).await {
            Ok(ticket) => ticket,
            Err(Failure::Over) => return Ok(None),
            Err(failure) => return Err(failure.into_fault()),
        };
        if !self.terms.queues {
            match self.others(&session, directory, until).await {
                Ok(0) => {}
                Ok(others) => return Ok(Some(self.outside(&session, others))),
                Err(Failure::Over) => return Ok(None),
                Err(failure) => return Err(failure.into_fault()),
            }
        }
        let began = clock::now();
        let lease_end = began.plus(self.terms.lease);
        let prefix = self.prefix(self.kind);
        let node = LockNode::new(session.clone(), directory.clone(), self.kind, prefix, lease_end);
        // Owned before anything is sent, so that nothing can be left behind.
        self.node = Some(node.clone());
        // A node that is being left has another name, and is a task's. From here on this node is
        // left.
        self.stage = Stage::Outside;
        if let Some(counting) = &mut self.counting {
            counting.forget();
        }
        let prefix = node.path(node.prefix());
        let data = match &self.value {
            Some(value) => value.as_bytes().to_vec(),
            None => self.terms.about().into_bytes(),
        };
        let create = || create_and_list(&session, &prefix, directory, &data, until);
        let Some(asked) = node.ask(create) else { return Ok(None) };
        let counter = self.counter_to_move();
        let counter = Self::look_at_counter(&session, counter.as_ref(), until);
        let permits = || self.leases.as_ref().map(|leases| session.list(leases, until));
        let read = OptionFuture::from(permits());
        let (mut made, counter, mut read) = tokio::join!(asked, counter, read);
        if made.0.as_ref().is_err_and(Failure::is_no_node) {
            let create = || make_create_and_list(&session, &prefix, directory, &data, until);
            let Some(asked) = node.ask(create) else { return Ok(None) };
            (made, read) = tokio::join!(asked, OptionFuture::from(permits()));
        }
        let (created, listed) = made;
        let (number, czxid) = match created {
            Ok(created) => created,
            Err(failure) => return self.not_created(&node, directory, failure, until).await,
        };
        let name = format!("{}{number:010}", node.prefix());
        node.is_there(&name, czxid);
        if let Some(fault) = used_up(directory, number, czxid) {
            self.stand_outside();
            return Err(fault);
        }
        match listed {
            Ok(children) => {
                let basis = Basis { ticket, counter, permits: read };
                self.stand(&node, &name, &children, began, until, basis).await
            }
            Err(failure) => self.not_served(&node, failure),
        }
    }

    /// The number of claims beside which a claim that may not queue does not hold the key.
    async fn others(&self, session: &Session, directory: &str, until: Instant) -> Answer<usize> {
        let children = line::children(session, directory, until).await?;
        let line = Line::of(&children);
        let (Some(leases), Some(of)) = (&self.leases, self.limit()) else {
            return Ok(if line.is_open_to(self.kind) { 0 } else { line.len() });
        };
        let permits = listed(session.list(leases, until).await)?;
        let in_use = Permits::of(&permits);
        if let Some(other) = in_use.limit().filter(|other| *other != of) {
            return Err(Failure::Unfit(Fault::other_limit(other)));
        }
        let is_open = line.len() == 0 && !in_use.is_full(of);
        Ok(if is_open { 0 } else { line.len() + in_use.names().len() })
    }

    async fn not_created(
        &mut self,
        node: &LockNode,
        directory: &str,
        failure: Failure,
        until: Instant,
    ) -> Stepped {
        match failure {
            Failure::Unknown(fault) | Failure::Unfit(fault) => return Err(fault),
            Failure::Over => return Ok(None),
            Failure::Answer(_) => {}
        }
        node.is_gone();
        self.stand_outside();
        if !failure.is_no_node() {
            return Err(failure.into_fault());
        }
        // Something above the directory is missing.
        match node.session.make_directory(directory, until).await {
            Ok(()) | Err(Failure::Over) => Ok(None),
            Err(failure) => Err(failure.into_fault()),
        }
    }

    /// Looks for a node that was asked for and whose name was not told.
    async fn find(&mut self, node: &LockNode, directory: &str) -> Stepped {
        match removal::find(&node.session, directory, node.prefix()).await {
            Ok(Some((name, czxid))) => {
                node.is_there(&name, czxid);
                if let Some(fault) = used_up(directory, children::number(&name), czxid) {
                    self.stand_outside();
                    return Err(fault);
                }
            }
            // It was never created, and will not be any more.
            Ok(None) => node.is_gone(),
            Err(Failure::Over) => {}
            Err(failure) => return Err(failure.into_fault()),
        }
        Ok(None)
    }

    /// The standing of a claim with a node, by what the children say.
    async fn stand(
        &mut self,
        node: &Arc<LockNode>,
        name: &str,
        children: &[String],
        began: Instant,
        until: Instant,
        basis: Basis,
    ) -> Stepped {
        let line = Line::of(children);
        let Some(standing) = line.standing(name) else {
            // An operator took it away.
            node.is_gone();
            return Ok(None);
        };
        let Some(awaits) = standing.awaits else {
            return match self.limit() {
                Some(of) => {
                    self.take_permit(node, of, standing.wanted, (began, until), basis).await
                }
                None => self.hold(node, standing.wanted, began, until, basis).await,
            };
        };
        let permits = basis.permits.and_then(Result::ok).unwrap_or_default();
        let permits = Permits::of(&permits);
        if let Some(refusal) = self.check_limit(&permits).await {
            return Err(refusal);
        }
        let ahead = standing.ahead as usize + permits.names().len();
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        if !self.terms.queues {
            let outside = self.outside(&node.session, ahead as usize);
            // A line that was joined in vain is left at once.
            return self.withdraw().await.map(|_| Some(outside));
        }
        let same = self.waiting_mut().is_some_and(|waiting| waiting.awaits == awaits);
        let blocked = Some(self.wait_for(&node.session, ahead, awaits));
        if same && self.watch.as_ref().is_some_and(|watch| !watch.is_over()) {
            return Ok(blocked);
        }
        self.watch = None;
        let path = node.path(awaits);
        // Without a share it looks again by the clock.
        let Some(share) = node.session.share(path.len()) else { return Ok(blocked) };
        match node.session.watch_data(&path, until).await {
            Ok((_, stat, watcher)) => {
                self.watch = Some(Watch::on(&node.session, watcher, share));
                // A writer that becomes a reader sets its data. If it has done so since the line was
                // read, the watch came too late.
                if let Some(waiting) = self.waiting_mut()
                    && node.kind == Kind::Reader
                    && stat.version > 0
                {
                    waiting.is_stale = true;
                    return Ok(None);
                }
                Ok(blocked)
            }
            // It has left: whoever is before us now is in the next list.
            Err(failure) if failure.is_no_node() => Ok(None),
            Err(Failure::Over) => Ok(None),
            // A claim that hides its data stands in line all the same. It is looked for again by
            // the clock.
            Err(Failure::Answer(Error::NoAuth)) => Ok(blocked),
            Err(failure) => Err(failure.into_fault()),
        }
    }

    /// The first in line holds the key.
    pub(in crate::zookeeper) async fn hold(
        &mut self,
        node: &LockNode,
        wanted: bool,
        began: Instant,
        until: Instant,
        basis: Basis,
    ) -> Stepped {
        let Presence::There { czxid, .. } = node.presence() else { return Ok(None) };
        self.watch = None;
        let tokens = match &self.counting {
            None => tokens(czxid, self.terms.tokens_max),
            Some(_) => match self.reserve(node, basis, until).await? {
                Some(block) => block,
                None => return Ok(None),
            },
        };
        let (before, now) = (self.held(), clock::now());
        let held = Held {
            since: now,
            looked: now,
            wanted,
            revoke_requested: before.is_some_and(|held| held.revoke_requested),
            waited: self.waiting_mut().is_some() || before.is_some_and(|held| held.waited),
            rang: before.is_some_and(|held| held.rang),
        };
        self.stage = Stage::Held(held);
        let grant = self.grant(node, held, began, until, tokens).await;
        // Nobody may take the node away before the grant is over.
        if !node.extend(began.plus(self.terms.lease)) {
            return Ok(None);
        }
        grant.map(|grant| Some(Attempt::Granted(grant)))
    }

    /// The standing of a claim that is not in the line.
    pub(in crate::zookeeper) fn outside(&self, session: &Session, others: usize) -> Attempt {
        Attempt::Blocked { ahead: u32::try_from(others).ok(), recheck: self.recheck(session) }
    }
}

/// The reason why a node that was made cannot serve.
pub(in crate::zookeeper) fn used_up(directory: &str, number: i64, czxid: u64) -> Option<Fault> {
    let what = if children::is_used_up(number) {
        format!(
            "the directory {directory} has used up its sequence numbers: leave it alone for some \
             minutes, so that the server removes it"
        )
    } else if czxid >= CZXID_END {
        "the servers have counted too many transactions for fencing tokens of 63 bits".to_owned()
    } else {
        return None;
    };
    Some(Fault::new(FaultKind::Refused, what))
}

type Created = (Answer<(i64, u64)>, Answer<Vec<String>>);

/// Takes one round trip. Sent when called.
fn create_and_list<'a>(
    session: &'a Session,
    prefix: &'a str,
    directory: &'a str,
    data: &'a [u8],
    until: Instant,
) -> impl Future<Output = Created> + 'a {
    let created = session.create(prefix, data, until);
    let listed = session.list(directory, until);
    async move { tokio::join!(created, listed) }
}

/// Takes one round trip as well, if what is above the directory is there. Sent when called.
fn make_create_and_list<'a>(
    session: &'a Session,
    prefix: &'a str,
    directory: &'a str,
    data: &'a [u8],
    until: Instant,
) -> impl Future<Output = Created> + 'a {
    let made = session.make(directory, until);
    let both = create_and_list(session, prefix, directory, data, until);
    async move {
        match tokio::join!(made, both) {
            // The directory could not be made: that says more than that it is not there.
            (Err(failure), (Err(created), listed))
                if created.is_no_node() && !failure.is_no_node() =>
            {
                (Err(failure), listed)
            }
            (_, both) => both,
        }
    }
}
