//! A claim that waits for what is said on a channel.

use std::sync::{Arc, Weak};

use tokio::sync::mpsc;

use super::connection::Connection;
use super::session::Session;
use crate::backend::ClaimId;

/// Channels that the server is told of in one go.
const TOLD_AT_ONCE: usize = 1_024;

/// A claim that waits at a channel, until this is dropped.
#[derive(Debug)]
pub(in crate::redis) struct Hearing {
    connection: Arc<Connection>,
    session: Arc<Session>,
    name: Arc<str>,
    claim: ClaimId,
}

impl Hearing {
    /// Has a claim wait at a channel, over a connection that listens.
    pub(in crate::redis) fn new(
        connection: Arc<Connection>,
        session: Arc<Session>,
        name: &str,
        claim: ClaimId,
    ) -> Self {
        let name = Arc::from(name);
        session.channels.join(&name, claim, || {
            let (look, looks) = mpsc::unbounded_channel();
            drop(connection.home().spawn(tend(Arc::downgrade(&connection), looks)));
            look
        });
        Self { connection, session, name, claim }
    }

    /// Whether what is said there would be heard now. A connection that is gone is called back.
    pub(in crate::redis) fn is_on(&self) -> bool {
        self.connection.is_there()
            && self
                .connection
                .number()
                .is_some_and(|number| self.session.channels.is_heard(&self.name, number))
    }

    /// Waits until it would be.
    pub(in crate::redis) async fn on(&self) {
        loop {
            let heard = self.session.channels.more();
            tokio::pin!(heard);
            heard.as_mut().enable();
            if self.is_on() {
                return;
            }
            heard.await;
        }
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.session.channels.leave(&self.name, self.claim);
    }
}

/// Tells the server what has become of channels, in the order in which that was looked at.
async fn tend(connection: Weak<Connection>, mut looks: mpsc::UnboundedReceiver<Arc<str>>) {
    let mut names = Vec::new();
    while looks.recv_many(&mut names, TOLD_AT_ONCE).await > 0 {
        let Some(connection) = connection.upgrade() else { return };
        connection.tend(&names).await;
        names.clear();
    }
}
