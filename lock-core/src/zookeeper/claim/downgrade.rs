//! A holder that becomes a reader.
//!
//! Curator's own lets a queued writer in between: a reader's node of its own would stand behind that
//! writer. Here the claim asks for the reader's node while it has the other one, which says to all
//! who read the line that the two are one reader, in the place of the first: see `protocol/children`.
//! So the readers behind it are let in, and no writer.
//!
//! - No writer stands between the two nodes: the claim goes on with the reader's, and deletes the
//!   other. Whoever comes later stands behind it, for clients of Curator too.
//! - A writer does: both stay, until the claim is withdrawn or that writer has left. Clients of
//!   Curator do not know of such pairs, and wait.

use std::sync::Arc;
use std::time::Instant;

use zookeeper_client::Error;

use super::ZooKeeperClaim;
use super::join::used_up;
use crate::backend::{Fault, Renewal};
use crate::ground::{Plus as _, clock};
use crate::zookeeper::fault::{self, Failure};
use crate::zookeeper::node::lock_node::{LockNode, Presence};
use crate::zookeeper::node::removal;
use crate::zookeeper::protocol::children::{self, Kind, Line};
use crate::zookeeper::session::REQUEST_WITHIN;

impl ZooKeeperClaim {
    pub(in crate::zookeeper) async fn become_reader(&mut self) -> Result<Renewal, Fault> {
        let began = clock::now();
        let until = began.plus(REQUEST_WITHIN);
        loop {
            let (Some(node), Some(_)) = (self.node.clone(), self.held()) else {
                return Ok(Renewal::Lost);
            };
            match node.kind {
                Kind::Reader => return self.extend_hold().await,
                Kind::Latch | Kind::Lease => return Ok(Renewal::Lost),
                Kind::Mutex | Kind::Writer => {}
            }
            if !self.extend(&node, began) {
                self.stand_outside();
                return Ok(Renewal::Lost);
            }
            let (reader, is_new) = match &self.next {
                Some(reader) => (reader.clone(), false),
                None => (self.next_node(&node, Kind::Reader, began), true),
            };
            match (reader.presence(), is_new) {
                (Presence::Asked, true) => self.ask_for_reader(&node, &reader, until).await?,
                (Presence::Asked, false) => self.find_reader(&node, &reader).await?,
                (Presence::There { .. }, _) => {
                    // Looked at whether there is news or not.
                    self.watch = None;
                    let renewal = self.extend_hold().await?;
                    // Else somebody took the reader's node away meanwhile.
                    if renewal == Renewal::Lost || self.is_reader() {
                        return Ok(renewal);
                    }
                }
                // It was never created.
                (Presence::Absent, _) => self.next = None,
                // Its lease was over, and with it that of the claim.
                (Presence::GivenUp, _) => {
                    self.stand_outside();
                    return Ok(Renewal::Lost);
                }
            }
            if clock::now() >= until {
                return Err(fault::timed_out(REQUEST_WITHIN));
            }
        }
    }

    fn is_reader(&self) -> bool {
        self.next.is_some() || self.node.as_ref().is_some_and(|node| node.kind == Kind::Reader)
    }

    async fn ask_for_reader(
        &mut self,
        node: &Arc<LockNode>,
        reader: &Arc<LockNode>,
        until: Instant,
    ) -> Result<(), Fault> {
        let prefix = reader.path(reader.prefix());
        let data = self.terms.about().into_bytes();
        let Some(created) = reader.ask(|| reader.session.create(&prefix, &data, until)) else {
            return Ok(());
        };
        match created.await {
            Ok((number, czxid)) => {
                let name = format!("{}{number:010}", reader.prefix());
                self.reader_is_there(node, reader, &name, czxid)
            }
            Err(Failure::Over) => Ok(()),
            Err(Failure::Answer(error)) => {
                reader.is_gone();
                self.next = None;
                if error == Error::NoNode {
                    // The whole directory is gone, and the other node with it.
                    node.is_gone();
                    return Ok(());
                }
                Err(Failure::Answer(error).into_fault())
            }
            Err(failure) => Err(failure.into_fault()),
        }
    }

    /// Looks for a reader's node that was asked for and whose name was not told.
    async fn find_reader(
        &mut self,
        node: &Arc<LockNode>,
        reader: &Arc<LockNode>,
    ) -> Result<(), Fault> {
        match removal::find(&reader.session, &reader.directory, reader.prefix()).await {
            Ok(Some((name, czxid))) => self.reader_is_there(node, reader, &name, czxid),
            Ok(None) => {
                reader.is_gone();
                Ok(())
            }
            Err(Failure::Over) => Ok(()),
            Err(failure) => Err(failure.into_fault()),
        }
    }

    fn reader_is_there(
        &mut self,
        node: &Arc<LockNode>,
        reader: &Arc<LockNode>,
        name: &str,
        czxid: u64,
    ) -> Result<(), Fault> {
        // The hold goes on, and its tokens do.
        let Presence::There { czxid: before, .. } = node.presence() else { return Ok(()) };
        reader.is_there(name, before);
        let fault = used_up(&reader.directory, children::number(name), czxid);
        fault.map_or(Ok(()), |fault| {
            self.next = None;
            Err(fault)
        })
    }

    /// Passes the key from the claim's other node to its reader's, if the line that was read lets
    /// it.
    pub(in crate::zookeeper) async fn pass_on(
        &mut self,
        node: &Arc<LockNode>,
        name: &str,
        line: &[String],
        (data, version): (&[u8], i32),
        until: Instant,
    ) -> Result<(), Failure> {
        let next = self.next.clone().filter(|next| next.kind == Kind::Reader);
        let Some((reader, own)) = next.and_then(|next| next.name().map(|own| (next, own))) else {
            return Ok(());
        };
        let line = Line::of(line);
        if line.holders().first().is_none_or(|head| head.also != Some(&*own)) {
            // Somebody took it away.
            self.next = None;
        } else if !line.has_writer_before(&own) {
            // From here on it holds the key by this one, whatever becomes of the other.
            self.node = Some(reader);
            (self.next, self.watch) = (None, None);
            match node.session.delete(&node.path(name), until).await {
                Ok(()) => node.is_gone(),
                Err(failure) if failure.is_no_node() => node.is_gone(),
                // Its drop sees to it.
                Err(_) => {}
            }
        } else if line.holders().len() > 1
            && let Some(held) = self.held_mut()
            && !held.rang
        {
            // Those who wait for the end of this node look at the line when its data are set. Data
            // that another has set since they were read have told them.
            match node.session.set(&node.path(name), data, Some(version), until).await {
                Ok(()) | Err(Failure::Answer(Error::BadVersion)) => held.rang = true,
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }
}
