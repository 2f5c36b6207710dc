//! The settings and counters of a proxy, shared by the test and the proxy's thread.

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

/// The counts of what has passed a [`Proxy`](super::Proxy) since its start.
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
    /// The ports of servers, and what clients are told instead.
    pub(super) renamed: Mutex<Vec<(u16, u16)>>,
}

impl Shared {
    pub(super) fn count(&self, change: impl FnOnce(&mut Counters)) {
        self.counters.send_modify(change);
    }

    pub(super) fn set_trap(&self, which: Match, action: Action) -> Trap {
        let slot = Arc::new(Slot::new(which, action));
        self.arm(&slot);
        Trap::new(slot)
    }

    pub(super) fn arm(&self, slot: &Arc<Slot>) {
        self.traps.lock().expect("no proxy panicked").push(Arc::clone(slot));
    }

    /// The bytes of a reply, with the ports that it names renamed.
    pub(super) fn with_names(&self, bytes: Vec<u8>) -> Vec<u8> {
        let renamed = self.renamed.lock().expect("no proxy panicked");
        renamed.iter().fold(bytes, |bytes, (from, to)| rename(bytes, from, to))
    }

    /// Springs the first armed trap that wants this request.
    pub(super) fn spring(&self, request: &Request<'_>) -> Option<Arc<Slot>> {
        let mut traps = self.traps.lock().expect("no proxy panicked");
        traps.retain(|slot| slot.is_armed());
        traps.iter().find(|slot| slot.takes(request)).cloned()
    }
}

/// Puts one number in place of another that has no digit beside it.
fn rename(mut bytes: Vec<u8>, from: &u16, to: &u16) -> Vec<u8> {
    let (from, to) = (from.to_string(), to.to_string());
    assert_eq!(from.len(), to.len(), "a frame keeps its length");
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let mut at = 0;
    while let Some(next) = bytes[at..].windows(from.len()).position(|it| it == from.as_bytes()) {
        let (start, end) = (at + next, at + next + from.len());
        let is_part = is_digit(bytes.get(end)) || start > 0 && is_digit(bytes.get(start - 1));
        if !is_part {
            bytes[start..end].copy_from_slice(to.as_bytes());
        }
        at = end;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_renamed_where_it_stands_alone() {
        let text = b"-MOVED 7 127.0.0.1:40001 :40001 140001 400011".to_vec();
        let renamed = b"-MOVED 7 127.0.0.1:50002 :50002 140001 400011";
        assert_eq!(rename(text, &40001, &50002), renamed);
    }
}
