//! Where one frame of the Redis protocol (RESP2 and RESP3) ends, and what it is.

use super::control::Direction;
use super::protocol::{Event, IN_ORDER, Protocol, Request};

/// Replies come in the order of their requests, pushes between them.
#[derive(Debug)]
pub(super) struct Resp;

impl Protocol for Resp {
    fn scheme(&self) -> &'static str {
        "redis"
    }

    fn frame_len(&self, _: Direction, bytes: &[u8]) -> Option<usize> {
        frame_len(bytes)
    }

    fn request<'a>(&self, bytes: &'a [u8]) -> Request<'a> {
        let verb = verb_of(bytes);
        let subscribes = is_subscription(&verb);
        Request { verb, ticket: (!subscribes).then_some(IN_ORDER), subscribes, bytes }
    }

    fn said(&self, bytes: &[u8], subscribed: bool) -> Event {
        match is_push(bytes, subscribed) {
            true => Event::Push { message: is_message(bytes) },
            false => Event::Reply { ticket: IN_ORDER },
        }
    }
}

/// The length in bytes of the first whole frame in `bytes`; `None` if it is not whole yet.
///
/// Bytes that are no RESP type are an inline command, and end with their line.
fn frame_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut left: u64 = 1;
    while left > 0 {
        let kind = *bytes.get(at)?;
        let end = line_end(bytes, at)?;
        // An empty line is a command that says nothing, as of a stranger who takes this for another server.
        let count = bytes.get(at + 1..end - 2).and_then(number);
        at = end;
        left -= 1;
        match kind {
            // A length below zero is a null.
            b'$' | b'!' | b'=' => {
                if let Some(length) = count {
                    at += usize::try_from(length).ok()? + 2;
                }
            }
            b'*' | b'~' | b'>' => left += count.unwrap_or(0),
            b'%' => left += 2 * count.unwrap_or(0),
            // An attribute goes before the value that it describes.
            b'|' => left += 2 * count.unwrap_or(0) + 1,
            _ => {}
        }
    }
    (at <= bytes.len()).then_some(at)
}

/// The command of a request, in upper case; "" if there is none.
fn verb_of(request: &[u8]) -> String {
    String::from_utf8_lossy(element(request, 0)).to_ascii_uppercase()
}

/// True for a published message: a RESP3 push, or a RESP2 array on a subscribed connection.
fn is_message(frame: &[u8]) -> bool {
    matches!(frame.first(), Some(b'>' | b'*'))
        && matches!(element(frame, 0), b"message" | b"pmessage" | b"smessage")
}

/// True for what a subscribed connection is told without a request.
fn is_push(frame: &[u8], subscribed: bool) -> bool {
    match frame.first() {
        Some(b'>') => true,
        Some(b'*') if subscribed => {
            let word = element(frame, 0);
            is_message(frame) || word.ends_with(b"subscribe")
        }
        _ => false,
    }
}

/// True for a command that is answered by pushes only.
fn is_subscription(verb: &str) -> bool {
    verb.ends_with("SUBSCRIBE")
}

/// The bytes of element `n` of an array of bulk strings, or the inline command's first word.
fn element(frame: &[u8], n: usize) -> &[u8] {
    let find = || {
        let mut at = line_end(frame, 0)?;
        for _ in 0..n {
            at += frame_len(&frame[at..])?;
        }
        let start = line_end(frame, at)?;
        let length = usize::try_from(number(&frame[at + 1..start - 2])?).ok()?;
        frame.get(start..start + length)
    };
    match frame.first() {
        Some(b'*' | b'>') => find().unwrap_or_default(),
        _ => frame.split(u8::is_ascii_whitespace).next().unwrap_or_default(),
    }
}

/// The index behind the next CR LF at or after `from`.
fn line_end(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(2).position(|pair| pair == b"\r\n").map(|at| from + at + 2)
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_ends_where_its_last_element_does() {
        let frames: [&[u8]; 13] = [
            b"\r\n",
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":-1\r\n",
            b"$-1\r\n",
            b"$0\r\n\r\n",
            b"$4\r\na\r\nb\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*2\r\n$1\r\na\r\n*1\r\n:5\r\n",
            b"%1\r\n+a\r\n*2\r\n:1\r\n:2\r\n",
            b">2\r\n+message\r\n_\r\n",
            b"|1\r\n+a\r\n:1\r\n:7\r\n",
        ];
        for frame in frames {
            let text = String::from_utf8_lossy(frame);
            assert_eq!(frame_len(frame), Some(frame.len()), "{text}");
            let followed = [frame, b"+OK\r\n"].concat();
            assert_eq!(frame_len(&followed), Some(frame.len()), "{text}");
            for end in 0..frame.len() {
                assert_eq!(frame_len(&frame[..end]), None, "{text} cut at {end}");
            }
        }
    }

    #[test]
    fn a_request_is_known_by_its_verb() {
        assert_eq!(verb_of(b"*2\r\n$7\r\nevalsha\r\n$1\r\nx\r\n"), "EVALSHA");
        assert_eq!(verb_of(b"ping now\r\n"), "PING");
        assert_eq!(verb_of(b""), "");
        assert!(is_subscription("SSUBSCRIBE") && is_subscription("UNSUBSCRIBE"));
        assert!(!is_subscription("PUBLISH"));
    }

    #[test]
    fn a_message_is_told_from_a_confirmation_and_from_a_reply() {
        let message = b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n";
        let confirmed = b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
        assert!(is_message(message) && is_push(message, false));
        assert!(!is_message(confirmed) && is_push(confirmed, false));
        assert!(!is_push(b"*1\r\n$7\r\nmessage\r\n", false), "an array is a reply in RESP3");
        assert!(is_push(b"*1\r\n$7\r\nmessage\r\n", true));
        assert!(!is_push(b"+OK\r\n", true));
    }
}
