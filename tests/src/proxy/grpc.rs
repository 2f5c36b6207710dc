//! Where one frame of HTTP/2 ends, and which frames carry a request of etcd's.

use super::control::Direction;
use super::protocol::{Event, PING, Protocol, Request};

/// Replies come as they are ready, each on the stream of its request. All that is no message (the
/// greeting, headers, windows, pings) goes by as what a client sends by itself.
#[derive(Debug)]
pub(super) struct Grpc;

const HEAD: usize = 9;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const END_STREAM: u8 = 1;

impl Protocol for Grpc {
    fn scheme(&self) -> &'static str {
        "etcd"
    }

    fn frame_len(&self, _: Direction, bytes: &[u8]) -> Option<usize> {
        let whole = match bytes.first_chunk::<4>()? {
            b"PRI " => PREFACE.len(),
            [high, middle, low, _] => {
                HEAD + usize::from(*high) * 65_536 + usize::from(*middle) * 256 + usize::from(*low)
            }
        };
        (whole <= bytes.len()).then_some(whole)
    }

    fn request<'a>(&self, bytes: &'a [u8]) -> Request<'a> {
        let verb = message(bytes).map_or("", verb_of);
        let ticket = if verb.is_empty() { PING } else { stream(bytes) };
        Request { verb: verb.to_owned(), ticket: Some(ticket), subscribes: false, bytes }
    }

    fn said(&self, bytes: &[u8], _: bool) -> Event {
        let ends = |flags: u8| flags & END_STREAM != 0;
        match (bytes.get(3), bytes.get(4)) {
            (Some(&HEADERS), Some(flags)) if ends(*flags) => Event::Reply { ticket: stream(bytes) },
            (Some(&RESET), _) => Event::Reply { ticket: stream(bytes) },
            _ => Event::Part,
        }
    }
}

/// The number of the stream that a frame is of.
fn stream(bytes: &[u8]) -> i32 {
    let number = bytes.get(5..HEAD).and_then(|number| number.try_into().ok());
    number.map_or(PING, i32::from_be_bytes)
}

/// The message of a frame of data: behind a byte that it is not compressed, and its length.
fn message(bytes: &[u8]) -> Option<&[u8]> {
    (bytes.get(3) == Some(&DATA)).then(|| bytes.get(HEAD + 5..)).flatten()
}

/// The verb of a message, by the fields that it has.
fn verb_of(message: &[u8]) -> &'static str {
    let mut verb = "WATCH";
    let mut rest = message;
    while let Some((field, value, behind)) = next(rest) {
        match (field, value.and_then(<[u8]>::first)) {
            // The first operation of a transaction if all compares hold.
            (2, Some(0x12)) => return "PUT",
            (2, Some(0x1a)) => return "DELETE",
            (2, Some(_)) => verb = "RANGE",
            (1, None) => return "LEASE",
            _ => {}
        }
        rest = behind;
    }
    verb
}

type Bytes<'a> = &'a [u8];

/// The first field of a message, its bytes if it is no number, and what is behind it.
fn next(message: &[u8]) -> Option<(u64, Option<Bytes<'_>>, Bytes<'_>)> {
    let (tag, rest) = number(message)?;
    match tag & 7 {
        0 => Some((tag >> 3, None, number(rest)?.1)),
        2 => {
            let (length, rest) = number(rest)?;
            let (value, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            Some((tag >> 3, Some(value), behind))
        }
        _ => None,
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = bytes.iter().position(|byte| byte & 0x80 == 0)? + 1;
    let digits = bytes.get(..length)?.iter().rev();
    let value = digits.fold(0, |value, digit| value << 7 | u64::from(digit & 0x7f));
    Some((value, &bytes[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 5], body].concat()
    }

    fn field(number: u8, value: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(value.len()).unwrap()], value].concat()
    }

    #[test]
    fn frames_end_where_they_say() {
        for whole in [PREFACE.to_vec(), frame(4, 0, b""), frame(DATA, 0, &[7; 300])] {
            let followed = [&whole[..], b"more of it"].concat();
            let len = |bytes: &[u8]| Grpc.frame_len(Direction::ToServer, bytes);
            assert_eq!(len(&followed), Some(whole.len()));
            assert_eq!(len(&whole[..whole.len() - 1]), None);
        }
    }

    #[test]
    fn a_message_is_known_by_what_it_carries() {
        let txn = |op: &[u8]| [field(1, b"compare"), field(2, op)].concat();
        for (message, verb) in [
            (txn(&field(2, b"put")), "PUT"),
            (txn(&field(3, b"key")), "DELETE"),
            ([field(1, b"key"), field(2, b"kez")].concat(), "RANGE"),
            (vec![8, 0x96, 1], "LEASE"),
            (field(1, b"create"), "WATCH"),
        ] {
            let body = [&[0; 5][..], &message].concat();
            let bytes = frame(DATA, 0, &body);
            let request = Grpc.request(&bytes);
            assert_eq!((&*request.verb, request.ticket), (verb, Some(5)));
        }
        assert_eq!(Grpc.request(&frame(DATA, END_STREAM, b"")).ticket, Some(PING));
        assert_eq!(Grpc.said(&frame(HEADERS, 5, b""), false), Event::Reply { ticket: 5 });
        assert_eq!(Grpc.said(&frame(HEADERS, 4, b""), false), Event::Part);
    }
}
