//! Following an election. A candidate's key says what it publishes from the begin on, so its grant
//! shows it; so do those of Go's `Election`. One who follows watches the key at the head of the
//! line: not each candidate that comes and goes.

use std::sync::Arc;

use super::claim::{EtcdClaim, tokens};
use super::fault::Failure;
use super::line::{Kind, Line, Place};
use super::links::REQUEST_WITHIN;
use super::watch::{Events, Wanted};
use super::wire::Range;
use crate::backend::{Fault, Following};
use crate::ground::{Plus as _, clock};
use crate::token::FencingToken;
use crate::view::Leader;

impl EtcdClaim {
    /// Asks who leads, and has itself told of the next one.
    pub(super) async fn ask_who_leads(&mut self) -> Result<Following, Fault> {
        let until = clock::now().plus(REQUEST_WITHIN);
        let before = self.watch.take();
        let links = &self.sessions.links;
        let range = self.line_range();
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
    }
}

/// Go's mutex writes nothing into its key, and its election what the candidate publishes.
fn leads(head: &Place) -> bool {
    head.kind == Kind::Candidate || !head.is_ours && !head.about.text.is_empty()
}

fn leader(head: &Place) -> Leader {
    let value: Arc<str> = String::from_utf8_lossy(&head.about.text).into();
    let token = tokens(head.created, 1).first().map(FencingToken::new);
    Leader::new(value, token, head.claim.clone())
}
