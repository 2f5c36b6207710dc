//! Faults for one chosen request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use super::protocol::Request;
use crate::wait::within;

/// A description of the request that a [`Trap`] waits for.
#[derive(Clone, Debug, Default)]
pub struct Match {
    verb: Option<String>,
    other_than: Option<String>,
    parts: Vec<Vec<u8>>,
    skip: u64,
}

impl Match {
    /// Any request, but for ZooKeeper's pings.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests of one command, in any case: Redis's `EVALSHA`, `HELLO`; ZooKeeper's operations
    /// by the names of its clients: `CREATE`, `CREATECONTAINER`, `CREATETTL`, `DELETE`, `EXISTS`,
    /// `GETDATA`, `SETDATA`, `GETCHILDREN`, `GETACL`, `SETACL`, `SYNC`, `MULTI`, `AUTH`,
    /// `SETWATCHES`, `ADDWATCH`, `REMOVEWATCHES`, and `CONNECT` (a session's first request on a
    /// connection), `PING`, `CLOSE`. Versions of one operation share its name: `CREATE` is
    /// `create` and `create2`.
    #[must_use]
    pub fn verb(verb: &str) -> Self {
        Match { verb: Some(verb.to_ascii_uppercase()), ..Self::default() }
    }

    /// … of another command than this; named as in [`verb`](Self::verb).
    #[must_use]
    pub fn but(mut self, verb: &str) -> Self {
        self.other_than = Some(verb.to_ascii_uppercase());
        self
    }

    /// … whose bytes contain `part`: a key, a script's hash, a part of a path. Several must all be
    /// there.
    #[must_use]
    pub fn containing(mut self, part: impl AsRef<[u8]>) -> Self {
        self.parts.push(part.as_ref().to_vec());
        self
    }

    /// … but not the first `n` of them.
    #[must_use]
    pub fn after(mut self, n: u64) -> Self {
        self.skip = n;
        self
    }

    fn fits(&self, request: &Request<'_>) -> bool {
        let verb = match &self.verb {
            Some(verb) => request.verb == *verb,
            None => !request.is_ping(),
        };
        let is_other = self.other_than.as_deref().is_none_or(|other| request.verb != other);
        verb && is_other && self.parts.iter().all(|part| contains(request.bytes, part))
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}

/// The fate of the request that a [`Trap`] catches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It waits before the server until [`Trap::release`], and what comes behind it on its
    /// connection waits too.
    HoldRequest,
    /// The server carries it out; its reply, and what follows, waits until [`Trap::release`].
    HoldReply,
    /// As [`HoldRequest`](Self::HoldRequest), and the client's end of the connection is cut: the
    /// request reaches the server when the client knows of no connection any more.
    OrphanRequest,
    /// It never reaches the server, and its connection is cut.
    DropRequest,
    /// The server carries it out, its reply never reaches the client, and its connection is cut.
    SwallowReply,
}

/// A fault that waits for its request; see [`Proxy::trap`](super::Proxy::trap).
///
/// It springs once. Dropped, it is disarmed and lets go.
#[derive(Debug)]
#[must_use = "a dropped trap is disarmed"]
pub struct Trap {
    slot: Arc<Slot>,
}

impl Trap {
    pub(super) fn new(slot: Arc<Slot>) -> Self {
        Trap { slot }
    }

    /// Waits until the trap has caught its request: for [`Action::HoldReply`] and
    /// [`Action::SwallowReply`] until the server has answered it.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`](crate::wait::PATIENCE).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn sprung(&self) {
        let mut stage = self.slot.stage.subscribe();
        let what = format!("a request for {:?}", self.slot.which);
        let reached = within(&what, stage.wait_for(|stage| *stage >= Stage::Sprung)).await;
        drop(reached.expect("the trap keeps its own sender"));
    }

    /// True once [`sprung`](Self::sprung) would return at once.
    #[must_use]
    pub fn has_sprung(&self) -> bool {
        *self.slot.stage.borrow() >= Stage::Sprung
    }

    /// Waits until the server has answered an orphan that was let go.
    ///
    /// # Panics
    ///
    /// After [`PATIENCE`](crate::wait::PATIENCE).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn arrived(&self) {
        let mut stage = self.slot.stage.subscribe();
        let reached = within("an orphan", stage.wait_for(|stage| *stage >= Stage::Arrived)).await;
        drop(reached.expect("the trap keeps its own sender"));
    }

    /// Lets go what the trap holds, or what it will catch.
    pub fn release(&self) {
        self.slot.released.send_replace(true);
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        self.slot.advance(Stage::Sprung);
        self.release();
    }
}

/// A trap is armed, then taken by its request, then sprung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Armed,
    Taken,
    Sprung,
    /// Of an orphan alone.
    Arrived,
}

/// The proxy's side of a [`Trap`].
#[derive(Debug)]
pub(super) struct Slot {
    which: Match,
    pub(super) action: Action,
    seen: AtomicU64,
    stage: watch::Sender<Stage>,
    released: watch::Sender<bool>,
}

impl Slot {
    pub(super) fn new(which: Match, action: Action) -> Self {
        Slot {
            which,
            action,
            seen: AtomicU64::new(0),
            stage: watch::Sender::new(Stage::Armed),
            released: watch::Sender::new(false),
        }
    }

    pub(super) fn is_armed(&self) -> bool {
        *self.stage.borrow() == Stage::Armed
    }

    /// Takes `request` if it is the one, and is then armed no more.
    pub(super) fn takes(&self, request: &Request<'_>) -> bool {
        // Several proxies may come here at once.
        self.which.fits(request)
            && self.seen.fetch_add(1, Ordering::Relaxed) >= self.which.skip
            && self.advance(Stage::Taken)
    }

    /// Tells the test. Returns false if the test has dropped its trap meanwhile.
    pub(super) fn spring(&self) -> bool {
        self.advance(Stage::Sprung)
    }

    /// Tells the test that the server has answered.
    pub(super) fn arrive(&self) {
        self.advance(Stage::Arrived);
    }

    pub(super) async fn wait_for_release(&self) {
        let _ = self.released.subscribe().wait_for(|released| *released).await;
    }

    fn advance(&self, to: Stage) -> bool {
        self.stage.send_if_modified(|stage| {
            let advances = *stage < to;
            *stage = (*stage).max(to);
            advances
        })
    }
}
