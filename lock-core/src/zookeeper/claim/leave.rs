//! Leaving the line.

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::OptionFuture;
use tokio::task::JoinHandle;

use super::{Stage, ZooKeeperClaim};
use crate::backend::{Fault, Withdrawal};
use crate::ground::{Plus as _, clock};
use crate::zookeeper::fault;
use crate::zookeeper::node::lock_node::LockNode;
use crate::zookeeper::node::removal;
use crate::zookeeper::session::REQUEST_WITHIN;
use crate::zookeeper::session::liveness::End;

/// A withdrawal that was not answered at once.
#[derive(Debug)]
pub(in crate::zookeeper) enum Leaving {
    // ## Going => Unknown
    Going(JoinHandle<bool>, Withdrawal),
    /// The node may live on for as long as the session does at the server.
    Unknown,
}

/// The outcome of one deletion.
#[derive(Debug)]
enum Deleted {
    Done,
    /// It was not there any more.
    Before,
    /// It is tried again, for as long as it takes; the server may have refused.
    NotYet(Option<Fault>),
}

impl ZooKeeperClaim {
    /// Deletes what the claim has, whether it holds the key or waits.
    pub(in crate::zookeeper) async fn leave(&mut self) -> Result<Withdrawal, Fault> {
        let until = clock::now().plus(REQUEST_WITHIN);
        let answer = match mem::replace(&mut self.stage, Stage::Outside) {
            leaving @ Stage::Leaving(_) => {
                self.stage = leaving;
                return self.left(until).await;
            }
            Stage::Held(_) => Withdrawal::Released,
            Stage::Waiting(_) | Stage::Outside => Withdrawal::NotHeld,
        };
        // Kept until the end: it falls silent by itself with the node.
        let _watch = self.watch.take();
        // From here on their drop deletes them.
        let (node, next) = (self.node.take(), self.next.take());
        let Some(node) = node else { return Ok(Withdrawal::NotHeld) };
        let also = OptionFuture::from(next.as_ref().map(|next| delete(next, until)));
        let (own, also) = tokio::join!(delete(&node, until), also);
        let (answer, refused) = match (own, also) {
            (Deleted::Done, None | Some(Deleted::Done | Deleted::Before)) => return Ok(answer),
            (Deleted::Before, None | Some(Deleted::Done | Deleted::Before)) => {
                return Ok(Withdrawal::NotHeld);
            }
            (Deleted::Before, Some(Deleted::NotYet(refused))) => (Withdrawal::NotHeld, refused),
            (Deleted::Done, Some(Deleted::NotYet(refused))) | (Deleted::NotYet(refused), _) => {
                (answer, refused)
            }
        };
        self.next_id();
        let removals: Vec<_> = [Some(&node), next.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|node| node.give_up())
            .collect();
        match node.session.liveness.ended() {
            Some(End::Expired) => return Ok(Withdrawal::NotHeld),
            None if removals.is_empty() => return Ok(Withdrawal::NotHeld),
            Some(End::GivenUp) => self.stage = Stage::Leaving(Leaving::Unknown),
            None => {
                let task = removal::start(&node.session, removals);
                self.stage = Stage::Leaving(Leaving::Going(task, answer));
            }
        }
        // The caller need not wait for what will not pass by itself.
        match refused {
            Some(fault) => Err(fault),
            None => self.left(until).await,
        }
    }

    /// The answer to a deletion that goes on in the background.
    async fn left(&mut self, until: Instant) -> Result<Withdrawal, Fault> {
        let (task, answer) = match &mut self.stage {
            Stage::Leaving(Leaving::Going(task, answer)) => (task, *answer),
            Stage::Leaving(Leaving::Unknown) => return Err(fault::left_to_its_session()),
            _ => return Ok(Withdrawal::NotHeld),
        };
        match self.sessions.home.timeout_at(until, task).await {
            Err(_) => Err(fault::timed_out(REQUEST_WITHIN)),
            Ok(Ok(true)) => {
                self.stage = Stage::Outside;
                Ok(answer)
            }
            // The session was given up.
            Ok(_) => {
                self.stage = Stage::Leaving(Leaving::Unknown);
                Err(fault::left_to_its_session())
            }
        }
    }
}

async fn delete(node: &Arc<LockNode>, until: Instant) -> Deleted {
    let Some(name) = node.name() else { return Deleted::NotYet(None) };
    match node.session.delete(&node.path(&name), until).await {
        Ok(()) => {
            node.is_gone();
            Deleted::Done
        }
        Err(failure) if failure.is_no_node() => {
            node.is_gone();
            Deleted::Before
        }
        Err(failure) => {
            Deleted::NotYet(Some(failure.into_fault()).filter(|fault| !fault.is_transient()))
        }
    }
}
