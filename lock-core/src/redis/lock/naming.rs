//! The name of an acquire at the server, for whoever looks at a stuck lock, and since when it holds it.
//!
//! It is in a key of its own beside the lock. A claim writes it with a renewal that comes a quarter of
//! the lease or more behind the first one, and seldom again: a hold that is short costs nothing more.
//! It is deleted when the claim is gone. That of a process that died ends by itself. Until then it is shown
//! for nobody: an inspection asks for the names of those who hold the key.
//!
//! Nobody waits for any of it, and where it fails an inspection says less.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use redis::{Cmd, Value};
use tokio::task::JoinHandle;

use crate::backend::ClaimId;
use crate::ground::{Plus as _, clock, timeout};
use crate::limits::NAME_BYTES_MAX;
use crate::redis::protocol::names::Names;
use crate::redis::topology::Topology;
use crate::redis::wire::request::REQUEST_WITHIN;

/// A name stays for ten leases from its last writing. Where that is longer than this, it stays for this
/// long, or two leases. It is written anew after half of the time.
const STAYS_MAX: Duration = Duration::from_secs(300);

/// The name of an acquire, and whether the server has it.
#[derive(Debug)]
pub(super) enum Naming {
    /// There is none.
    Nameless,
    // ## Named => Lasting
    Named(&'static str),
    /// Its hold was renewed.
    Lasting(Box<Lasting>),
}

/// The name of a claim that was renewed.
#[derive(Debug)]
pub(super) struct Lasting {
    word: Word,
    /// The time when it was renewed first.
    since: Instant,
    /// The place of the name, once that was sent.
    key: Option<NameKey>,
    writing: Writing,
}

#[derive(Debug)]
enum Writing {
    // ## Never => UnderWay
    Never,
    // ## UnderWay => Over
    /// Begun then. Answers whether it is done.
    UnderWay(Instant, JoinHandle<bool>),
    // ## Over => UnderWay
    /// Until it is to be written anew.
    Over(Instant),
}

impl Naming {
    pub(super) fn of(name: Option<&'static str>) -> Self {
        name.map_or(Self::Nameless, Self::Named)
    }

    /// The hold that began with the token `first`, or 0, was renewed for this lease. `key_of` gives the key
    /// of its name. A claim is granted the key once.
    pub(super) fn renewed(
        &mut self,
        first: u64,
        lease: Duration,
        key_of: impl FnOnce() -> NameKey,
    ) {
        match self {
            Self::Nameless => {}
            Self::Named(name) => {
                let (word, since, key) = (Word { first, name: *name }, clock::now(), None);
                let writing = Writing::Never;
                *self = Self::Lasting(Box::new(Lasting { word, since, key, writing }));
            }
            Self::Lasting(lasting) => lasting.again(lease, key_of),
        }
    }
}

impl Lasting {
    fn again(&mut self, lease: Duration, key: impl FnOnce() -> NameKey) {
        let now = clock::now();
        let stays = lease.saturating_mul(10).min(STAYS_MAX).max(lease.saturating_mul(2));
        let is_due = match &mut self.writing {
            Writing::Never => now >= self.since.plus(lease / 4),
            Writing::Over(until) => now >= *until,
            Writing::UnderWay(began, task) => match task.now_or_never() {
                None => false,
                Some(done) => {
                    let again = if matches!(done, Ok(true)) { stays / 2 } else { lease / 4 };
                    self.writing = Writing::Over(began.plus(again));
                    false
                }
            },
        };
        if is_due {
            let key = self.key.get_or_insert_with(key).clone();
            let home = key.servers.home().clone();
            self.writing =
                Writing::UnderWay(now, home.spawn(key.set(self.word.to_string(), stays)));
        }
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let writing = std::mem::replace(&mut self.writing, Writing::Never);
        let home = key.servers.home().clone();
        drop(home.spawn(async move {
            // Not before it is written.
            if let Writing::UnderWay(_, task) = writing {
                drop(task.await);
            }
            key.delete().await;
        }));
    }
}

/// The word of a claim about itself, as it is at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<S = &'static str> {
    /// The token with which it began; 0 where that is not known.
    pub(super) first: u64,
    pub(super) name: S,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.first, self.name)
    }
}

impl Word<String> {
    /// What was read; anybody may have written it.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(text);
        let (first, name) = text.split_once(' ')?;
        Some(Self { first: first.parse().ok()?, name: name.chars().take(NAME_BYTES_MAX).collect() })
    }
}

/// The key of the name of a claim.
#[derive(Debug, Clone)]
pub(super) struct NameKey {
    servers: Arc<Topology>,
    slot: u16,
    key: String,
}

impl NameKey {
    pub(super) fn of(servers: &Arc<Topology>, names: &Names, claim: ClaimId) -> Self {
        Self { servers: servers.clone(), slot: servers.slot(names), key: names.name_of(claim) }
    }

    async fn set(self, word: String, stays: Duration) -> bool {
        let mut set = redis::cmd("SET");
        let stays_ms = u64::try_from(stays.as_millis()).unwrap_or(u64::MAX);
        set.arg(&self.key).arg(word).arg("PX").arg(stays_ms);
        matches!(self.send(set).await, Some(Value::Okay))
    }

    async fn delete(self) {
        let mut delete = redis::cmd("DEL");
        delete.arg(&self.key);
        drop(self.send(delete).await);
    }

    async fn send(&self, command: Cmd) -> Option<Value> {
        let sent = self.servers.send_to(self.slot, &command);
        timeout::within(REQUEST_WITHIN, sent).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_was_written_and_nothing_else_is_one() {
        let word = Word { first: 7, name: "pay an order" };
        let read = Word { first: 7, name: "pay an order".to_owned() };
        assert_eq!(Word::read(word.to_string().as_bytes()), Some(read));
        for text in ["", "7", "pay an order", "-7 pay", "18446744073709551616 pay"] {
            assert_eq!(Word::read(text.as_bytes()), None, "{text}");
        }
        let long = Word::read(format!("7 {}", "x".repeat(1 << 20)).as_bytes()).unwrap();
        assert_eq!(long.name.len(), NAME_BYTES_MAX);
    }
}
