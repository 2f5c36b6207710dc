//! Permits, as Curator's `InterProcessSemaphoreV2` has them.
//!
//! `<key>/locks` is the line of those who want one: a mutex. Whoever holds that counts the nodes in
//! `<key>/leases`, which nobody else may create meanwhile. With fewer than the limit it creates its
//! own and lets go of the mutex, else it waits for one of them to go. Curator's clients create their
//! node before they count; here that is the last thing, so a waiter that gives up leaves none.
//!
//! A permit of ours says in its name which number it has, and of how many. Those of other clients
//! count and have none.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::OptionFuture;
use zookeeper_client::Error;

use super::ZooKeeperClaim;
use super::join::{Basis, Stepped, used_up};
use crate::backend::{Claim, Fault, Mode};
use crate::ground::Plus as _;
use crate::zookeeper::fault::Failure;
use crate::zookeeper::node::lock_node::{LockNode, Presence};
use crate::zookeeper::node::removal;
use crate::zookeeper::node::watch::{Watch, listed};
use crate::zookeeper::protocol::children::{self, Kind, Permits};

impl ZooKeeperClaim {
    /// The limit of the permits that this claim wants one of.
    pub(in crate::zookeeper) fn limit(&self) -> Option<u32> {
        match self.terms.mode {
            Mode::Permit { of } => Some(of),
            Mode::Exclusive | Mode::Shared => None,
        }
    }

    /// Refuses a claim that says otherwise of how many permits there are than those in use do. It
    /// leaves the line. What others want says nothing: they may be about to be refused themselves.
    pub(in crate::zookeeper) async fn check_limit(
        &mut self,
        permits: &Permits<'_>,
    ) -> Option<Fault> {
        let of = self.limit()?;
        let other = permits.limit().filter(|other| *other != of)?;
        // Nodes that are not deleted at once are deleted in the background.
        drop(self.withdraw().await);
        Some(Fault::other_limit(other))
    }

    /// The claim is first in the line of those who want a permit.
    pub(in crate::zookeeper) async fn take_permit(
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
        let permits = Permits::of(&permits);
        if let Some(refusal) = self.check_limit(&permits).await {
            return Err(refusal);
        }
        if permits.is_full(of) {
            return self.wait_for_a_permit(mutex, of, &leases, until).await;
        }
        self.slot = permits.free_slot();
        let lease = self.next_node(mutex, Kind::Lease, began);
        let (prefix, data) = (lease.path(lease.prefix()), self.terms.about().into_bytes());
        let Some(own) = mutex.name() else { return Ok(None) };
        let own = mutex.path(&own);
        // All in one round trip, and in this order: nobody else counts before the node is there.
        // The server removes the directory while nobody has a permit. Where it has done so by now
        // the claim keeps its place in the line, and makes it.
        let send = || {
            let made = is_missing.then(|| session.make(&leases, until));
            let created = session.create(&prefix, &data, until);
            let listed = session.list(&leases, until);
            let left = session.delete_beside(&own, &leases, until);
            async move { tokio::join!(OptionFuture::from(made), created, listed, left) }
        };
        let Some(asked) = lease.ask(send) else { return Ok(None) };
        let (_, created, listed, left) = asked.await;
        // Else its drop sees to it.
        if left.is_ok_and(|gone| gone) {
            mutex.is_gone();
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
                    // The directory was removed.
                    Error::NoNode => Ok(None),
                    error => Err(Failure::Answer(error).into_fault()),
                }
            }
            Err(failure) => Err(failure.into_fault()),
        }
    }

    /// A permit was asked for without an answer, or is held and asked about again.
    pub(in crate::zookeeper) async fn find_permit(
        &mut self,
        lease: &Arc<LockNode>,
        began: Instant,
        until: Instant,
    ) -> Stepped {
        if !lease.extend(began.plus(self.terms.lease)) {
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
        let wanted = self.held().is_some_and(|held| held.wanted);
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
        let permits = Permits::of(permits);
        let is_good = permits.admit(&name);
        if is_good.is_none() {
            // An operator took it away.
            lease.is_gone();
        }
        if is_good != Some(true) {
            self.stand_outside();
            return Ok(None);
        }
        (self.node, self.next) = (Some(lease.clone()), None);
        let basis = Basis::default();
        self.hold(lease, wanted && permits.is_full(of), began, until, basis).await
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
        // Without a share it looks again by the clock.
        let Some(share) = mutex.session.share(leases.len()) else {
            return Ok(Some(self.wait_for(&mutex.session, of, leases)));
        };
        match mutex.session.watch_children(leases, until).await {
            // One has gone meanwhile.
            Ok((permits, _)) if !Permits::of(&permits).is_full(of) => Ok(None),
            Ok((_, watcher)) => {
                self.watch = Some(Watch::on(&mutex.session, watcher, share));
                Ok(Some(self.wait_for(&mutex.session, of, leases)))
            }
            Err(failure) if failure.is_no_node() => Ok(None),
            Err(failure) => self.not_served(mutex, failure),
        }
    }
}
