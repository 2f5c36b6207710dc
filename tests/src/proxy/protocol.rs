//! The facts that a proxy has to know of the frames that pass it, whatever the protocol.

use std::fmt::Debug;
use std::time::Duration;

use super::control::Direction;

/// The language of a client and its server. A store's own is a file beside this one, or outside of
/// this crate.
pub trait Protocol: Debug + Send + Sync + 'static {
    /// The scheme that a URL begins with.
    fn scheme(&self) -> &'static str;

    /// The length in bytes of the first whole frame in `bytes`, which pass in this direction; `None` if it
    /// is not whole yet.
    fn frame_len(&self, direction: Direction, bytes: &[u8]) -> Option<usize>;

    /// Reads a whole frame from the client.
    fn request<'a>(&self, bytes: &'a [u8]) -> Request<'a>;

    /// Reads a whole frame from the server, to a client that has `subscribed` or not.
    fn said(&self, bytes: &[u8], subscribed: bool) -> Event;

    /// How long a server that does not listen is waited for before its client is reset. By default
    /// it is not.
    fn connect_patience(&self) -> Duration {
        Duration::ZERO
    }
}

/// The ticket of all requests that are answered in order.
pub const IN_ORDER: i32 = 0;

/// The ticket of what a client sends by itself to be known to live, and of the answer.
pub const PING: i32 = -2;

/// A frame from the client.
#[derive(Debug)]
pub struct Request<'a> {
    /// The command, in upper case; "" if that is unknown.
    pub verb: String,
    /// The ticket that its reply will be known by; `None` if it has no reply of its own.
    pub ticket: Option<i32>,
    /// True if pushes follow.
    pub subscribes: bool,
    /// All of it.
    pub bytes: &'a [u8],
}

impl Request<'_> {
    pub(super) fn is_ping(&self) -> bool {
        self.ticket == Some(PING)
    }
}

/// A frame from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The answer to the first request with this ticket that is not yet answered.
    Reply {
        /// The ticket.
        ticket: i32,
    },
    /// A part of an answer, of which more follows.
    Part,
    /// Something without a request.
    Push {
        /// It tells news, and does not only confirm.
        message: bool,
    },
}

impl Event {
    /// True for the answer to a [ping](Request::is_ping).
    pub(super) fn is_pong(self) -> bool {
        self == Self::Reply { ticket: PING }
    }
}

/// Bytes, as they come: no verbs and no replies.
#[derive(Debug)]
pub(super) struct Opaque;

impl Protocol for Opaque {
    fn scheme(&self) -> &'static str {
        "tcp"
    }

    fn frame_len(&self, _: Direction, bytes: &[u8]) -> Option<usize> {
        (!bytes.is_empty()).then_some(bytes.len())
    }

    fn request<'a>(&self, bytes: &'a [u8]) -> Request<'a> {
        Request { verb: String::new(), ticket: None, subscribes: false, bytes }
    }

    fn said(&self, _: &[u8], _: bool) -> Event {
        Event::Reply { ticket: IN_ORDER }
    }

    fn connect_patience(&self) -> Duration {
        Duration::from_secs(5)
    }
}
