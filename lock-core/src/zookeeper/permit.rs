//! Permits, as Curator's `InterProcessSemaphoreV2` has them.
//!
//! `<key>/locks` is the line of those who want one: a mutex. Whoever holds that counts the nodes in
//! `<key>/leases`, which nobody else may create meanwhile. With fewer than the limit it creates its
//! own and lets go of the mutex, else it waits for one of them to go. Curator's clients create their
//! node before they count; here that is the last thing, so a waiter that gives up leaves none.
//!
//! A permit of ours says in its data which number it has, and of how many. Those of other clients
//! count and have none.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::OptionFuture;
use zookeeper_client::Error;

use super::about::{self, Permit};
use super::claim::ZooKeeperClaim;
use super::fault::Failure;
use super::join::{Basis, Stepped, used_up};
use super::lock_node::{LockNode, Presence};
use super::removal;
use super::session::{Answer, Session};
use super::watch::{Watch, is_full, listed};
use crate::backend::{Claim, Fault, Mode};
use crate::proto::children::{self, Kind};

/// What the permits in use say.
#[derive(Debug, Default)]
struct InUse {
    slots: Vec<u32>,
    other_limit: Option<u32>,
}

impl ZooKeeperClaim {
    /// The limit of the permits that this claim wants one of.
    pub(super) fn limit(&self) -> Option<u32> {
        match self.terms.mode {
            Mode::Permit { of } => Some(of),
            Mode::Exclusive | Mode::Shared => None,
        }
    }

    /// What the node of a claim in this place says of itself.
    pub(super) fn data(&self, slot: Option<u32>) -> Vec<u8> {
        if let Some(value) = &self.value {
            return value.as_bytes().to_vec();
        }
        match self.limit() {
            Some(of) => about::permit_data(Permit { slot, of }, self.terms.name),
            None => about::data(self.terms.name),
        }
    }

    /// Refuses a claim that says otherwise of how many permits there are than the others do. It
    /// leaves the line.
    pub(super) async fn refuse_other_limit(&mut self, in_use: u32) -> Fault {
        // What is not deleted at once is in the background.
        drop(self.withdraw().await);
        Fault::other_limit(in_use)
    }

    /// The claim is first in the line of those who want a permit.
    pub(super) async fn take_permit(
        &mut self,
        mutex: &Arc<LockNode>,
        of: u32,
        wanted: bool,
        (began, until): (Instant, Instant),
        basis: Basis,
    ) -> Stepped {
        let (session, Some(leases)) = (&mutex.session, self.leases.clone()) else {
            return Ok(None);
        };
        let Some(permits) = basis.permits else { return Ok(None) };
        let is_missing = permits.as_ref().is_err_and(Failure::is_no_node);
        let permits = match listed(permits) {
            Ok(permits) => permits,
            Err(failure) => return self.not_served(mutex, failure),
        };
        // While it waits here nobody else is given one: the limit was found to be the same.
        let has_read = self.waiting.as_ref().is_some_and(|waiting| *waiting.awaits == *leases);
        if has_read && is_full(&permits, of) {
            return self.wait_for_a_permit(mutex, of, &leases, until).await;
        }
        let in_use = match read(session, &leases, &permits, of, until).await {
            Ok(in_use) => in_use,
            Err(failure) => return self.not_served(mutex, failure),
        };
        if let Some(other) = in_use.other_limit {
            return Err(self.refuse_other_limit(other).await);
        }
        if is_full(&permits, of) {
            return self.wait_for_a_permit(mutex, of, &leases, until).await;
        }
        let slot = (0..of).find(|slot| !in_use.slots.contains(slot)).unwrap_or(0);
        self.slot = slot;
        let lease = self.next_node(mutex, Kind::Lease, began);
        if is_missing {
            lease.makes_directory();
        }
        let (prefix, data) = (lease.path(lease.prefix()), self.data(Some(slot)));
        let Some(own) = mutex.name() else { return Ok(None) };
        let own = mutex.path(&own);
        // All in one round trip, and in this order: nobody else counts before the node is there.
        let send = || {
            let made = is_missing.then(|| session.make(&leases, until));
            let created = session.create(&prefix, &data, until);
            let listed = session.list(&leases, until);
            let left = session.delete(&own, until);
            async move { tokio::join!(OptionFuture::from(made), created, listed, left) }
        };
        let Some(asked) = lease.ask(send) else { return Ok(None) };
        let (_, created, listed, left) = asked.await;
        match left {
            Ok(()) => mutex.is_gone(),
            Err(failure) if failure.is_no_node() => mutex.is_gone(),
            // Its drop sees to it.
            Err(_) => {}
        }
        match created {
            Ok((number, czxid)) => {
                lease.is_there(&format!("{}{number:010}", lease.prefix()), czxid);
                match listed {
                    Ok(permits) => self.hold_permit(&lease, &permits, wanted, began, until).await,
                    Err(failure) => self.not_served(&lease, failure),
                }
            }
            Err(Failure::Over) => Ok(None),
            Err(Failure::Answer(error)) => {
                lease.is_gone();
                self.next = None;
                match error {
                    // The server has removed the directory, as nobody has a permit.
                    Error::NoNode => Ok(None),
                    error => Err(Failure::Answer(error).into_fault()),
                }
            }
            Err(failure) => Err(failure.into_fault()),
        }
    }

    /// A permit was asked for without an answer, or is held and asked about again.
    pub(super) async fn find_permit(
        &mut self,
        lease: &Arc<LockNode>,
        began: Instant,
        until: Instant,
    ) -> Stepped {
        if !lease.extend(began + self.terms.lease) {
            self.stand_outside();
            return Ok(None);
        }
        if lease.presence() == Presence::Asked {
            match removal::find(&lease.session, &lease.directory, lease.prefix()).await {
                Ok(Some((name, czxid))) => lease.is_there(&name, czxid),
                // It was never created, and will not be any more.
                Ok(None) => {
                    lease.is_gone();
                    self.next = None;
                    return Ok(None);
                }
                Err(Failure::Over) => return Ok(None),
                Err(failure) => return Err(failure.into_fault()),
            }
        }
        let wanted = self.held.is_some_and(|held| held.wanted);
        match listed(lease.session.list(&lease.directory, until).await) {
            Ok(permits) => self.hold_permit(lease, &permits, wanted, began, until).await,
            Err(failure) => self.not_served(lease, failure),
        }
    }

    /// The claim goes on with its permit, if that is one of so many.
    async fn hold_permit(
        &mut self,
        lease: &Arc<LockNode>,
        permits: &[String],
        wanted: bool,
        began: Instant,
        until: Instant,
    ) -> Stepped {
        let (Presence::There { name, czxid }, Some(of)) = (lease.presence(), self.limit()) else {
            return Ok(None);
        };
        if let Some(fault) = used_up(&lease.directory, children::number(&name), czxid) {
            self.stand_outside();
            return Err(fault);
        }
        let place = children::leases(permits).iter().position(|permit| **permit == *name);
        match place {
            // Somebody took the mutex away, so that two counted at one time.
            Some(place) if place >= of as usize => {
                self.stand_outside();
                return Ok(None);
            }
            // An operator took it away.
            None => {
                lease.is_gone();
                self.stand_outside();
                return Ok(None);
            }
            Some(_) => {}
        }
        (self.node, self.next) = (Some(lease.clone()), None);
        let basis = Basis::default();
        self.hold(lease, wanted && is_full(permits, of), began, until, basis).await
    }

    /// Waits for one of those who have a permit, with the mutex in hand.
    async fn wait_for_a_permit(
        &mut self,
        mutex: &Arc<LockNode>,
        of: u32,
        leases: &Arc<str>,
        until: Instant,
    ) -> Stepped {
        if !self.terms.queues {
            let outside = self.outside(&mutex.session, of as usize);
            return self.withdraw().await.map(|_| Some(outside));
        }
        self.watch = None;
        match mutex.session.watch_children(leases, until).await {
            // One has gone meanwhile.
            Ok((permits, _)) if !is_full(&permits, of) => Ok(None),
            Ok((_, watcher)) => {
                self.watch = Some(Watch::on(&mutex.session, watcher));
                Ok(Some(self.wait_for(&mutex.session, of, leases)))
            }
            Err(failure) if failure.is_no_node() => Ok(None),
            Err(failure) => self.not_served(mutex, failure),
        }
    }
}

/// Reads what the permits in use say of themselves. All is sent before the first answer is awaited.
async fn read(
    session: &Session,
    leases: &str,
    permits: &[String],
    of: u32,
    until: Instant,
) -> Answer<InUse> {
    let names = children::leases(permits);
    let paths: Vec<_> = names.iter().map(|name| format!("{leases}/{name}")).collect();
    let asked: Vec<_> = paths.iter().map(|path| session.get(path, until)).collect();
    let mut in_use = InUse::default();
    for answer in asked {
        let permit = match answer.await {
            Ok((data, _)) => about::permit(&data),
            // It was given back meanwhile, or its owner hides what it says.
            Err(Failure::Answer(Error::NoNode | Error::NoAuth)) => None,
            Err(failure) => return Err(failure),
        };
        let Some(permit) = permit else { continue };
        in_use.slots.extend(permit.slot);
        in_use.other_limit = in_use.other_limit.or(Some(permit.of).filter(|other| *other != of));
    }
    Ok(in_use)
}
