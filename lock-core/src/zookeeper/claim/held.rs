//! Holding the key: the grant, what a holder looks at, and what it is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::OptionFuture;

use super::ZooKeeperClaim;
use crate::backend::{Fault, Grant, Mode, Renewal};
use crate::ground::{Plus as _, clock};
use crate::token::TokenBlock;
use crate::zookeeper::about;
use crate::zookeeper::fault::{self, Failure};
use crate::zookeeper::node::lock_node::LockNode;
use crate::zookeeper::node::watch::{Behind, Holder, Watch, listed};
use crate::zookeeper::protocol::children::{Kind, Line, Permits};
use crate::zookeeper::session::REQUEST_WITHIN;

/// A hold that is over before this does not ask to be told of others, which saves two requests.
const WATCH_AFTER: Duration = Duration::from_millis(2);

/// The state of a holder.
#[derive(Debug, Clone, Copy)]
pub(in crate::zookeeper) struct Held {
    pub(in crate::zookeeper) since: Instant,
    /// The time when its node and the line were read.
    pub(in crate::zookeeper) looked: Instant,
    pub(in crate::zookeeper) wanted: bool,
    pub(in crate::zookeeper) revoke_requested: bool,
    pub(in crate::zookeeper) waited: bool,
    /// Whether the readers behind it were told that it is one of them.
    pub(in crate::zookeeper) rang: bool,
}

impl ZooKeeperClaim {
    /// The grant of a claim that stands first, as seen by a request that began at `began`.
    pub(in crate::zookeeper) async fn grant(
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
            slot: self.slot,
            wanted: held.wanted,
            handed_on: held.waited,
            revoke_requested: held.revoke_requested,
            ..Grant::new(tokens, self.terms.lease.min(session_left))
        })
    }

    /// Extends the hold, if its node is there.
    pub(in crate::zookeeper) async fn extend_hold(&mut self) -> Result<Renewal, Fault> {
        let began = clock::now();
        let until = began.plus(REQUEST_WITHIN);
        let (Some(node), Some(_)) = (self.node.clone(), self.held()) else {
            return Ok(Renewal::Lost);
        };
        let Some(name) = node.name() else {
            self.stand_outside();
            return Ok(Renewal::Lost);
        };
        let looked = match self.extend(&node, began) {
            true => self.look(&node, &name, until).await,
            false => Err(Failure::Over),
        };
        match (looked, self.held()) {
            (Ok(true), Some(held)) => {
                let grant = self.grant(&node, held, began, until, TokenBlock::empty()).await;
                // It may be another one by now, see `downgrade`.
                if self.node.as_ref().is_some_and(|node| !node.is_lost()) {
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

    /// Looks at what a holder is told of by watches; `false` if its node is gone.
    async fn look(
        &mut self,
        node: &Arc<LockNode>,
        name: &str,
        until: Instant,
    ) -> Result<bool, Failure> {
        let (Ok(directory), Some(held)) = (self.directory.clone(), self.held()) else {
            return Ok(false);
        };
        let now = clock::now();
        let is_told = self.watch.as_ref().is_none_or(Watch::is_over);
        // The word of a watch on the line can be lost with a link, so now and then it is read.
        if !is_told && !held.wanted && now < held.looked.plus(node.session.timeout()) {
            return Ok(true);
        }
        let path = node.path(name);
        let data = node.session.get(&path, until);
        let line = node.session.list(&directory, until);
        let permits = self.leases.as_ref().map(|leases| node.session.list(leases, until));
        let (data, line, permits) = tokio::join!(data, line, OptionFuture::from(permits));
        let (data, stat) = match data {
            Err(failure) if failure.is_no_node() => return Ok(false),
            data => data?,
        };
        let line = listed(line)?;
        let wanted = match (permits, self.terms.mode) {
            (Some(permits), Mode::Permit { of }) => {
                Line::of(&line).len() > 0 && Permits::of(&listed(permits)?).is_full(of)
            }
            _ => match Line::of(&line).standing(name) {
                Some(standing) => standing.wanted,
                None => return Ok(false),
            },
        };
        if is_told || held.wanted != wanted {
            // Set anew when the engine listens again.
            self.watch = None;
        }
        if let Some(held) = self.held_mut() {
            held.revoke_requested |= about::is_revoked(&data);
            (held.wanted, held.looked) = (wanted, now);
        }
        self.pass_on(node, name, &line, (&data, stat.version), until).await?;
        Ok(true)
    }

    /// Waits for news as a holder.
    pub(in crate::zookeeper) async fn watch_as_holder(&mut self) {
        if let (Some(held), None) = (self.held(), &self.watch) {
            self.sessions.home.sleep_until(held.since.plus(WATCH_AFTER)).await;
            self.watch = self.holders_watch(held);
        }
    }

    fn holders_watch(&self, held: Held) -> Option<Watch> {
        let (Some(node), Ok(line)) = (&self.node, self.directory.clone()) else { return None };
        let name = node.name()?;
        let own = node.path(&name);
        let holder = match (self.terms.mode, node.kind) {
            (Mode::Permit { of }, _) => Holder::Permit { leases: node.directory.clone(), of },
            (_, Kind::Reader) => Holder::Reader(name),
            _ => Holder::Alone(name),
        };
        // Without a share it looks at each renewal.
        let share = node.session.share(own.len() + line.len())?;
        let behind = (!held.wanted).then_some(Behind { line, holder });
        let is_news = !held.revoke_requested;
        Some(Watch::of_holder(node.session.clone(), own, behind, is_news, share))
    }
}
