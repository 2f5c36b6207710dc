//! What a proxy has to know of the frames that pass it, whatever the protocol.

use std::time::Duration;

use super::control::Direction;
use super::{jute, pg, resp};

/// The language of a client and its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Replies come in the order of their requests, pushes between them.
    Redis,
    /// Replies carry the number of their request; watches notify between them.
    ZooKeeper,
    /// Replies come in the order of their requests, in parts; words of others between them.
    Postgres,
    /// Bytes, as they come.
    Opaque,
}

/// The ticket of all requests that are answered in order.
const IN_ORDER: i32 = 0;

/// A frame from the client.
pub(super) struct Request<'a> {
    /// What it asks for, in upper case; "" if that is unknown.
    pub(super) verb: String,
    /// What its reply will be known by; `None` if it has no reply of its own.
    pub(super) ticket: Option<i32>,
    /// True if pushes follow.
    pub(super) subscribes: bool,
    pub(super) bytes: &'a [u8],
}

impl Request<'_> {
    /// True for what a client sends by itself to be known to live.
    pub(super) fn is_ping(&self) -> bool {
        self.ticket == Some(jute::PING)
    }
}

/// A frame from the server.
pub(super) enum Event {
    /// The answer to the first request with this ticket that is not yet answered.
    Reply { ticket: i32 },
    /// A part of an answer, of which more follows.
    Part,
    /// Event without a request: `message` if it tells news, and not only confirms.
    Push { message: bool },
}

impl Event {
    /// True for the answer to a [ping](Request::is_ping).
    pub(super) fn is_pong(&self) -> bool {
        matches!(self, Event::Reply { ticket: jute::PING })
    }
}

impl Protocol {
    /// What a URL begins with.
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Protocol::Redis => "redis",
            Protocol::ZooKeeper => "zookeeper",
            Protocol::Postgres => "postgres",
            Protocol::Opaque => "tcp",
        }
    }

    /// How long a server that does not listen is waited for before its client is reset.
    pub(super) fn connect_patience(self) -> Duration {
        match self {
            Protocol::Redis | Protocol::ZooKeeper | Protocol::Postgres => Duration::ZERO,
            Protocol::Opaque => Duration::from_secs(5),
        }
    }

    /// The length in bytes of the first whole frame in `bytes`; `None` if it is not whole yet.
    pub(super) fn frame_len(self, direction: Direction, bytes: &[u8]) -> Option<usize> {
        match self {
            Protocol::Postgres => match direction {
                Direction::ToServer => pg::request_len(bytes),
                Direction::ToClient => pg::message_len(bytes),
            },
            Protocol::Redis => resp::frame_len(bytes),
            Protocol::ZooKeeper => jute::frame_len(bytes),
            Protocol::Opaque => (!bytes.is_empty()).then_some(bytes.len()),
        }
    }

    /// Reads a whole frame from the client.
    pub(super) fn request(self, bytes: &[u8]) -> Request<'_> {
        let (verb, ticket, subscribes) = match self {
            Protocol::Redis => {
                let verb = resp::verb_of(bytes);
                let subscribes = resp::is_subscription(&verb);
                (verb, (!subscribes).then_some(IN_ORDER), subscribes)
            }
            Protocol::ZooKeeper => {
                (jute::verb_of(bytes).to_owned(), Some(jute::ticket_of(bytes)), false)
            }
            Protocol::Postgres => {
                let verb = pg::verb_of(bytes);
                (verb.to_owned(), pg::is_answered(verb).then_some(IN_ORDER), false)
            }
            Protocol::Opaque => (String::new(), None, false),
        };
        Request { verb, ticket, subscribes, bytes }
    }

    /// Reads a whole frame from the server, to a client that has `subscribed` or not.
    pub(super) fn said(self, bytes: &[u8], subscribed: bool) -> Event {
        match self {
            Protocol::Redis if resp::is_push(bytes, subscribed) => {
                Event::Push { message: resp::is_message(bytes) }
            }
            Protocol::ZooKeeper if jute::is_notification(bytes) => Event::Push { message: true },
            Protocol::ZooKeeper => Event::Reply { ticket: jute::ticket_of(bytes) },
            Protocol::Postgres => match bytes.first() {
                Some(&pg::READY) => Event::Reply { ticket: IN_ORDER },
                Some(&pg::NOTIFICATION) => Event::Push { message: true },
                _ => Event::Part,
            },
            Protocol::Redis | Protocol::Opaque => Event::Reply { ticket: IN_ORDER },
        }
    }
}
