//! The channels that a client listens to for a while, as claims of it wait for what is said there.
//! They go over the connection that listens anyway, and come back with it.
//!
//! One task tells the server of them. It looks at what is wanted at that moment, so a channel that is
//! wanted again is never given up behind that, however fast its claims come and go.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use redis::{PushInfo, PushKind, Value};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc};

use crate::backend::ClaimId;
use crate::ground::lock;

/// The channels that claims of a session wait at.
#[derive(Debug, Default)]
pub(in crate::redis) struct Channels {
    named: Mutex<HashMap<Arc<str>, Channel>>,
    /// Has the task look at a channel. There is one once somebody waited.
    look: OnceLock<mpsc::UnboundedSender<Arc<str>>>,
    /// Poked when the server listens to more.
    heard: Notify,
}

#[derive(Debug, Default)]
struct Channel {
    /// Those who wait.
    claims: Vec<ClaimId>,
    told: Told,
}

/// The knowledge that the server has of a channel.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Told {
    // ## Nothing => Asked
    #[default]
    Nothing,
    // ## Asked => (Heard | Asked | Nothing)
    // Over the connection of this number it was asked for the channel.
    Asked(u64),
    // ## Heard => Asked
    // It has answered.
    Heard(u64),
}

impl Told {
    /// The number of the connection over which it was told.
    fn over(self) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Asked(over) | Self::Heard(over) => Some(over),
        }
    }
}

impl Channels {
    /// A claim waits at a channel from now on. `start` starts the task that looks at channels.
    pub(super) fn join(
        &self,
        name: &Arc<str>,
        claim: ClaimId,
        start: impl FnOnce() -> mpsc::UnboundedSender<Arc<str>>,
    ) {
        lock(&self.named).entry(name.clone()).or_default().claims.push(claim);
        self.look.get_or_init(start);
        self.look(name.clone());
    }

    fn look(&self, name: Arc<str>) {
        // Without the task, whose thread has ended, nothing is heard, and claims ask by the clock.
        if let Some(look) = self.look.get() {
            drop(look.send(name));
        }
    }

    /// It waits no more.
    pub(super) fn leave(&self, name: &Arc<str>, claim: ClaimId) {
        let mut named = lock(&self.named);
        let Some(channel) = named.get_mut(name) else { return };
        channel.claims.retain(|other| *other != claim);
        if channel.claims.is_empty() {
            drop(named);
            self.look(name.clone());
        }
    }

    /// All that are wanted, about to be asked for over a new connection of this number.
    pub(super) fn all(&self, over: u64) -> Vec<Arc<str>> {
        let mut named = lock(&self.named);
        named.retain(|_, channel| !channel.claims.is_empty());
        named.values_mut().for_each(|channel| channel.told = Told::Asked(over));
        named.keys().cloned().collect()
    }

    /// The channels to begin with and those to end, of these, over the connection of this number.
    pub(super) fn due(&self, names: &[Arc<str>], over: u64) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
        let (mut begin, mut end) = (Vec::new(), Vec::new());
        let mut named = lock(&self.named);
        for name in names {
            let Some(channel) = named.get_mut(name) else { continue };
            let told = channel.told.over();
            match (channel.claims.is_empty(), told) {
                // A later connection has asked for it already.
                (_, Some(told)) if told > over => {}
                (false, Some(told)) if told == over => {}
                (false, _) => {
                    channel.told = Told::Asked(over);
                    begin.push(name.clone());
                }
                (true, _) => {
                    named.remove(name);
                    if told == Some(over) {
                        end.push(name.clone());
                    }
                }
            }
        }
        (begin, end)
    }

    /// The server listens to these, over the connection of this number.
    pub(super) fn heard(&self, names: &[Arc<str>], over: u64) {
        let mut named = lock(&self.named);
        for name in names {
            if let Some(channel) = named.get_mut(name)
                && channel.told == Told::Asked(over)
            {
                channel.told = Told::Heard(over);
            }
        }
        drop(named);
        self.heard.notify_waiters();
    }

    /// The server did not answer, or refused: who asks for them next has them asked for again.
    pub(super) fn unheard(&self, names: &[Arc<str>], over: u64) {
        let mut named = lock(&self.named);
        for name in names {
            if let Some(channel) = named.get_mut(name)
                && channel.told == Told::Asked(over)
            {
                channel.told = Told::Nothing;
            }
        }
    }

    /// There is a connection of this number: what was wanted, or was not any more, while it was made is
    /// looked at.
    pub(super) fn opened(&self, over: u64) {
        let named = lock(&self.named);
        let is_due =
            |channel: &Channel| channel.claims.is_empty() || channel.told.over() != Some(over);
        let due = named.iter().filter(|(_, channel)| is_due(channel));
        let due: Vec<_> = due.map(|(name, _)| name.clone()).collect();
        drop(named);
        due.into_iter().for_each(|name| self.look(name));
        self.heard.notify_waiters();
    }

    /// Whether the server was asked for a channel over the connection of this number.
    pub(super) fn is_told(&self, name: &str, over: u64) -> bool {
        lock(&self.named).get(name).is_some_and(|channel| channel.told.over() == Some(over))
    }

    /// Whether what is said there would be heard over the connection of this number.
    pub(super) fn is_heard(&self, name: &str, over: u64) -> bool {
        lock(&self.named).get(name).is_some_and(|channel| channel.told == Told::Heard(over))
    }

    /// Resolves when the server listens to more than when this was made.
    pub(super) fn more(&self) -> Notified<'_> {
        self.heard.notified()
    }

    /// Those who wait for this push; `None` if it is of no channel that anybody waited at.
    pub(super) fn claims(&self, push: &PushInfo) -> Option<Vec<ClaimId>> {
        self.look.get()?;
        let (PushKind::Message, Some(Value::BulkString(name))) = (&push.kind, push.data.first())
        else {
            return None;
        };
        let name = std::str::from_utf8(name).ok()?;
        lock(&self.named).get(name).map(|channel| channel.claims.clone())
    }
}

#[cfg(test)]
mod tests;
