//! What the test sets and reads, shared with the proxy's thread.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use super::protocol::Request;
use super::trap::{Action, Match, Slot, Trap};

/// One half of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Requests.
    ToServer,
    /// Replies and pushes.
    ToClient,
}

/// How one direction passes its frames on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// At once.
    #[default]
    Pass,
    /// Each frame this long after it came. Pipelined frames are delayed together.
    Delay(Duration),
    /// Not at all until the flow changes. The end of a connection does not pass either.
    BlackHole,
}

/// What has passed a [`Proxy`](super::Proxy) since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections accepted from clients.
    pub connections: u64,
    /// Connections open now.
    pub open: u64,
    /// Requests that came from clients, passed on or not, but for ZooKeeper's pings.
    pub requests: u64,
    /// Replies that came from the server, passed on or not, but for those to ZooKeeper's pings.
    pub replies: u64,
    /// Pushes and notifications of watches that came from the server, passed on or not.
    pub pushes: u64,
    /// ZooKeeper's pings that came from clients, passed on or not. They come when they like.
    pub pings: u64,
    /// Published messages and notifications lost by
    /// [`Proxy::drop_pushes`](super::Proxy::drop_pushes).
    pub pushes_dropped: u64,
    /// Bytes that came from clients.
    pub bytes_to_server: u64,
    /// Bytes that came from the server.
    pub bytes_to_client: u64,
    /// Traps that have sprung.
    pub sprung: u64,
}

/// The wishes of the test.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Control {
    pub(super) to_server: Flow,
    pub(super) to_client: Flow,
    pub(super) drop_pushes: bool,
    pub(super) refusing: bool,
    pub(super) stopped: bool,
    /// Counted up for each wish, so that a connection knows those that it has not yet followed.
    pub(super) cuts: u64,
    pub(super) resets: u64,
    pub(super) silences: u64,
}

impl Control {
    pub(super) fn flow(&self, direction: Direction) -> Flow {
        match direction {
            Direction::ToServer => self.to_server,
            Direction::ToClient => self.to_client,
        }
    }
}

/// The state that the test's handle and the proxy's thread share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) control: watch::Sender<Control>,
    pub(super) counters: watch::Sender<Counters>,
    traps: Mutex<Vec<Arc<Slot>>>,
}

impl Shared {
    pub(super) fn count(&self, change: impl FnOnce(&mut Counters)) {
        self.counters.send_modify(change);
    }

    pub(super) fn set_trap(&self, which: Match, action: Action) -> Trap {
        let slot = Arc::new(Slot::new(which, action));
        self.traps.lock().expect("no proxy panicked").push(Arc::clone(&slot));
        Trap::new(slot)
    }

    /// Springs the first armed trap that wants this request.
    pub(super) fn spring(&self, request: &Request<'_>) -> Option<Arc<Slot>> {
        let mut traps = self.traps.lock().expect("no proxy panicked");
        traps.retain(|slot| slot.is_armed());
        traps.iter().find(|slot| slot.takes(request)).cloned()
    }
}
