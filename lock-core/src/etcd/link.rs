//! The link in use, and which one follows it.
//!
//! A link that was left is gone, and what was done of its connection with it. So one is not left
//! because a request waits for that, unless for as long as a connection may take.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint};

use crate::ground::{clock, lock};

/// The link to one member.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) channel: Channel,
    /// The number of this link among those of its client.
    pub(super) number: u64,
    member: usize,
    left: watch::Sender<bool>,
    /// The time since when requests wait for its connection or a login, and none has ended.
    waits_since: Mutex<Option<Instant>>,
}

impl Link {
    fn to(endpoints: &[Endpoint], member: usize, number: u64) -> Arc<Self> {
        let channel = endpoints[member].connect_lazy();
        let (left, waits_since) = (watch::Sender::new(false), Mutex::new(None));
        Arc::new(Self { channel, number, member, left, waits_since })
    }

    /// A request is about to wait for this link.
    pub(super) fn waits(&self) {
        lock(&self.waits_since).get_or_insert_with(clock::now);
    }

    /// The message of a request has left over this link, or it was said why none can.
    pub(super) fn waits_no_more(&self) {
        *lock(&self.waits_since) = None;
    }

    /// How long requests have waited for this link to take one.
    pub(super) fn waited(&self) -> Duration {
        let since = *lock(&self.waits_since);
        since.map_or(Duration::ZERO, |since| clock::now().saturating_duration_since(since))
    }

    /// Resolves when another link is used in its place.
    pub(super) async fn left(&self) {
        // The sender is here.
        drop(self.left.subscribe().wait_for(|left| *left).await);
    }
}

/// One link is used at a time.
#[derive(Debug)]
pub(super) struct Choice(Mutex<Current>);

/// The link in use, and which members were left.
#[derive(Debug)]
struct Current {
    link: Option<Arc<Link>>,
    /// How many there were.
    links: u64,
    /// The time at which each member was left last.
    left_at: Vec<Option<Instant>>,
}

impl Current {
    /// The member to ask behind this one: the first of those who were never left, else of those who
    /// were left before the others.
    fn next(&mut self, member: usize, now: Instant) -> usize {
        if let Some(left_at) = self.left_at.get_mut(member) {
            *left_at = Some(now);
        }
        let behind = (0..self.left_at.len()).cycle().skip(member.saturating_add(1));
        let others = behind.take(self.left_at.len());
        others.min_by_key(|other| self.left_at.get(*other).copied().flatten()).unwrap_or(0)
    }

    fn link_to(&mut self, endpoints: &[Endpoint], member: usize) -> Arc<Link> {
        self.links = self.links.wrapping_add(1);
        self.link.insert(Link::to(endpoints, member, self.links)).clone()
    }
}

impl Choice {
    pub(super) fn among(members: usize) -> Self {
        Self(Mutex::new(Current { link: None, links: 0, left_at: vec![None; members] }))
    }

    /// The link in use. To be called at home, as it is served by the runtime that makes it.
    pub(super) fn link(&self, endpoints: &[Endpoint]) -> Arc<Link> {
        let mut current = lock(&self.0);
        if let Some(link) = &current.link {
            return link.clone();
        }
        current.link_to(endpoints, 0)
    }

    /// Uses another link than this one from now on: to the next member, or anew to the only one.
    pub(super) fn leave(&self, link: &Arc<Link>, endpoints: &[Endpoint], now: Instant) {
        let mut current = lock(&self.0);
        if current.link.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            let next = current.next(link.member, now);
            current.link_to(endpoints, next);
        }
        drop(current);
        link.left.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_member_that_was_left_longest_ago_is_asked_next() {
        let now = clock::now();
        let mut current = Current { link: None, links: 0, left_at: vec![None; 3] };
        let mut at = 0;
        let mut asked = Vec::new();
        for second in 0..4 {
            at = current.next(at, now + Duration::from_secs(second));
            asked.push(at);
        }
        assert_eq!(asked, [1, 2, 0, 1]);
        // One that has just been left is not asked before one that was well for long.
        assert_eq!(current.next(1, now + Duration::from_secs(9)), 2);
        let mut alone = Current { link: None, links: 0, left_at: vec![None] };
        assert_eq!(alone.next(0, now), 0);
    }
}
