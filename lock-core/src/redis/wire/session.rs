//! A client, as its servers know it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::PushInfo;

use super::channels::Channels;
use super::inbox::Inboxes;
use crate::ground::clock;
use crate::redis::protocol::names;

/// State that the connections of one client share.
#[derive(Debug, Default)]
pub(in crate::redis) struct Session {
    /// 64 random bits that name this client, in hexadecimal digits.
    pub(in crate::redis) id: Box<str>,
    name: Option<Box<str>>,
    /// The pushes to it.
    pub(in crate::redis) inboxes: Inboxes,
    /// The channels that claims of it wait at.
    pub(in crate::redis) channels: Channels,
    requests: AtomicU64,
}

impl Session {
    /// One that no other client has. Servers are told whose its connections are, if there is a label.
    pub(in crate::redis) fn new(label: Option<&str>) -> Arc<Self> {
        let id = format!("{:016x}", clock::random_u64());
        let name = label.map(|label| names::connection(&id, label).into());
        Self { name, ..Self::called(id) }.into()
    }

    fn called(id: impl Into<Box<str>>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// One that a test knows by its name.
    #[cfg(test)]
    pub(in crate::redis) fn of_test() -> Arc<Self> {
        Self::called("ab").into()
    }

    /// The name of its connections in a server's list of clients, see [`names::connection`].
    pub(in crate::redis) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Delivers a push that came in a term. Runs on the task of the connection: short, and without
    /// waiting.
    pub(in crate::redis) fn deliver_in(&self, term: u64, push: &PushInfo) {
        match self.channels.claims(push) {
            Some(claims) => self.inboxes.told(&claims),
            None => self.inboxes.deliver_in(term, push),
        }
    }

    /// One more request is sent.
    pub(in crate::redis) fn count(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// The requests so far.
    pub(in crate::redis) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}
