//! Frames of ZooKeeper's protocol: a length in 4 bytes, then that many bytes.

use super::control::Direction;
use super::protocol::{Event, Protocol, Request};

/// The ticket of the client's connect and of its reply: their version, where all that follows
/// has its own number. Clients number from 1.
const CONNECT: i32 = 0;

/// The ticket of a watch's notification.
const NOTIFICATION: i32 = -1;

/// Replies carry the number of their request; watches notify between them.
#[derive(Debug)]
pub(super) struct Jute;

impl Protocol for Jute {
    fn scheme(&self) -> &'static str {
        "zookeeper"
    }

    fn frame_len(&self, _: Direction, bytes: &[u8]) -> Option<usize> {
        frame_len(bytes)
    }

    fn request<'a>(&self, bytes: &'a [u8]) -> Request<'a> {
        let (verb, ticket) = (verb_of(bytes).to_owned(), Some(ticket_of(bytes)));
        Request { verb, ticket, subscribes: false, bytes }
    }

    fn said(&self, bytes: &[u8], _: bool) -> Event {
        match is_notification(bytes) {
            true => Event::Push { message: true },
            false => Event::Reply { ticket: ticket_of(bytes) },
        }
    }
}

/// The length in bytes of the first whole frame in `bytes`; `None` if it is not whole yet.
fn frame_len(bytes: &[u8]) -> Option<usize> {
    let length = 4 + usize::try_from(int(bytes, 0)?).ok()?;
    (length <= bytes.len()).then_some(length)
}

/// The number that a reply has from its request.
fn ticket_of(frame: &[u8]) -> i32 {
    int(frame, 4).unwrap_or(CONNECT)
}

/// True for a watch's notification.
fn is_notification(frame: &[u8]) -> bool {
    ticket_of(frame) == NOTIFICATION
}

/// The operation of a request, in upper case, without the version that some names end in; ""
/// for one that is not known.
fn verb_of(request: &[u8]) -> &'static str {
    if ticket_of(request) == CONNECT {
        return "CONNECT";
    }
    match int(request, 8).unwrap_or_default() {
        1 | 15 => "CREATE",
        2 => "DELETE",
        3 => "EXISTS",
        4 => "GETDATA",
        5 => "SETDATA",
        6 => "GETACL",
        7 => "SETACL",
        8 | 12 => "GETCHILDREN",
        9 => "SYNC",
        11 => "PING",
        13 => "CHECK",
        14 => "MULTI",
        16 => "RECONFIG",
        17 => "CHECKWATCHES",
        18 => "REMOVEWATCHES",
        19 => "CREATECONTAINER",
        21 => "CREATETTL",
        22 => "MULTIREAD",
        100 => "AUTH",
        101 | 105 => "SETWATCHES",
        102 => "SASL",
        103 => "GETEPHEMERALS",
        104 => "GETALLCHILDRENNUMBER",
        106 => "ADDWATCH",
        107 => "WHOAMI",
        -11 => "CLOSE",
        _ => "",
    }
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..at + 4)?.try_into().ok().map(i32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::super::protocol::PING;
    use super::*;

    /// A frame of two numbers and a text.
    fn frame(ticket: i32, operation: i32, rest: &[u8]) -> Vec<u8> {
        let body = [&ticket.to_be_bytes(), &operation.to_be_bytes(), rest].concat();
        let length = i32::try_from(body.len()).unwrap();
        [&length.to_be_bytes()[..], &body].concat()
    }

    #[test]
    fn a_frame_ends_where_its_length_says() {
        for rest in [&b""[..], b"/path", &[0; 300]] {
            let one = frame(7, 4, rest);
            assert_eq!(frame_len(&one), Some(one.len()));
            assert_eq!(frame_len(&[&one[..], b"more"].concat()), Some(one.len()));
            for end in 0..one.len() {
                assert_eq!(frame_len(&one[..end]), None, "cut at {end}");
            }
        }
        assert_eq!(frame_len(&[0; 4]), Some(4), "an empty frame is whole");
    }

    #[test]
    fn a_request_is_known_by_its_operation_and_the_first_one_by_its_version() {
        assert_eq!(verb_of(&frame(0, 0, &[0; 40])), "CONNECT");
        for (operation, verb) in [(1, "CREATE"), (15, "CREATE"), (19, "CREATECONTAINER")] {
            assert_eq!(verb_of(&frame(1, operation, b"/a")), verb);
        }
        for (operation, verb) in [(8, "GETCHILDREN"), (12, "GETCHILDREN"), (105, "SETWATCHES")] {
            assert_eq!(verb_of(&frame(-8, operation, b"/a")), verb);
        }
        assert_eq!(
            (verb_of(&frame(PING, 11, b"")), verb_of(&frame(3, -11, b""))),
            ("PING", "CLOSE")
        );
        assert_eq!((verb_of(&frame(3, 99, b"")), verb_of(b"\0\0\0\0")), ("", "CONNECT"));
    }

    #[test]
    fn a_notification_is_told_from_a_reply() {
        assert!(is_notification(&frame(-1, -1, b"")) && !is_notification(&frame(1, -1, b"")));
        assert_eq!(ticket_of(&frame(42, 0, b"")), 42);
    }
}
