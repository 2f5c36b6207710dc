//! Following an election. A candidate's key says what it publishes from the begin on, so its grant
//! shows it; so do those of Go's `Election`. One who follows watches the key at the head of the
//! line: not each candidate that comes and goes.

use std::sync::Arc;

use super::claim::{prefix, tokens};
use super::fault::Failure;
use super::line::{InLine, Kind, Line};
use super::links::REQUEST_WITHIN;
use super::sessions::Sessions;
use super::watch::{Events, Wanted, Watch};
use super::wire::Range;
use crate::backend::{BoxFuture, Fault, Follower, Following};
use crate::ground::{Plus as _, clock};
use crate::key::Key;
use crate::token::FencingToken;
use crate::view::Leader;

/// One who follows the election on a key at etcd.
#[derive(Debug)]
pub(super) struct EtcdFollower {
    sessions: Arc<Sessions>,
    /// The bytes that the keys of the line begin with.
    prefix: Arc<[u8]>,
    watch: Option<Watch>,
}

impl EtcdFollower {
    pub(super) fn new(sessions: Arc<Sessions>, key: &Key) -> Self {
        Self { prefix: prefix(&sessions, key), sessions, watch: None }
    }
}

impl Follower for EtcdFollower {
    fn leader(&mut self) -> BoxFuture<'_, Result<Following, Fault>> {
        Box::pin(async {
            let until = clock::now().plus(REQUEST_WITHIN);
            let before = self.watch.take();
            let links = &self.sessions.links;
            let range = Range::prefix(&self.prefix);
            let mut read = links.read(range.read(1), until).await.map_err(Failure::into_fault)?;
            let mut line = Line::of(&self.prefix, &read.kvs);
            if line.len() < read.kvs.len() {
                // The first is in the line of another key.
                read = links.read(range.read(0), until).await.map_err(Failure::into_fault)?;
                line = Line::of(&self.prefix, &read.kvs);
            }
            let revision = read.header.map_or(0, |header| header.revision);
            let head = line.holders().first();
            let wanted = match head {
                Some(head) => Wanted { range: Range::one(&head.key), events: Events::All },
                None => Wanted { range, events: Events::Puts },
            };
            self.watch = Some(self.sessions.hub.watch(before, vec![wanted], revision));
            let leader = head.filter(|head| leads(head)).map(leader);
            Ok(Following { leader, recheck: links.target.session / 3 })
        })
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            match &self.watch {
                Some(watch) => watch.over().await,
                None => std::future::pending().await,
            }
        })
    }
}

/// Go's mutex writes nothing into its key, and its election what the candidate publishes.
fn leads(head: &InLine) -> bool {
    head.kind == Kind::Candidate || !head.is_ours && !head.about.text.is_empty()
}

fn leader(head: &InLine) -> Leader {
    let value: Arc<str> = String::from_utf8_lossy(&head.about.text).into();
    let token = tokens(head.created, 1).first().map(FencingToken::new);
    Leader::new(value, token, head.claim.clone())
}
