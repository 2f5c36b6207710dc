//! Where an answer of the MySQL protocol ends, and which requests there are.
//!
//! A request is a packet. An answer is several of them, whose number is told by the first: they are
//! one frame here. Those who speak have agreed that no packet ends the columns (`DEPRECATE_EOF`).

use super::control::Direction;
use super::protocol::{Event, IN_ORDER, Protocol, Request};

/// Each request but two has one answer, in order. The server greets first.
#[derive(Debug)]
pub(super) struct My;

impl Protocol for My {
    fn scheme(&self) -> &'static str {
        "mysql"
    }

    fn frame_len(&self, direction: Direction, bytes: &[u8]) -> Option<usize> {
        match direction {
            Direction::ToServer => Packet::first(bytes).map(|packet| packet.end),
            Direction::ToClient => answer_len(bytes),
        }
    }

    fn request<'a>(&self, bytes: &'a [u8]) -> Request<'a> {
        let verb = Packet::first(bytes).map_or("", |packet| verb_of(&packet));
        let ticket = (!matches!(verb, "QUIT" | "CLOSE")).then_some(IN_ORDER);
        Request { verb: verb.to_owned(), ticket, subscribes: false, bytes }
    }

    fn said(&self, bytes: &[u8], _: bool) -> Event {
        match Packet::first(bytes) {
            Some(Packet { number: 0, .. }) => Event::Part,
            _ => Event::Reply { ticket: IN_ORDER },
        }
    }
}

const OK: u8 = 0x00;
const END: u8 = 0xfe;
const ERROR: u8 = 0xff;

/// The body of the answer to a `PREPARE`, which is a length that no other has with this beginning:
/// a statement here writes a row or two, and tells no number of a length between.
const PREPARED_LEN: usize = 12;

/// A packet: how long it is, its number since the last request, and what it says.
struct Packet<'a> {
    end: usize,
    number: u8,
    body: &'a [u8],
}

impl<'a> Packet<'a> {
    /// The first one; `None` if it is not whole yet.
    fn first(bytes: &'a [u8]) -> Option<Self> {
        let head: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], 0]);
        let end = usize::try_from(length).ok()? + 4;
        Some(Self { end, number: head[3], body: bytes.get(4..end)? })
    }

    fn begins_with(&self, byte: u8) -> bool {
        self.body.first() == Some(&byte)
    }

    /// A count in its body.
    fn count(&self, at: usize) -> usize {
        let pair = self.body.get(at..at + 2).and_then(|pair| pair.try_into().ok());
        pair.map_or(0, |pair| usize::from(u16::from_le_bytes(pair)))
    }
}

/// The length in bytes of the first whole answer; `None` if it is not whole yet.
fn answer_len(bytes: &[u8]) -> Option<usize> {
    let first = Packet::first(bytes)?;
    // Before it is let in, a client is told one thing at a time.
    if first.number != 1 || first.begins_with(ERROR) {
        return Some(first.end);
    }
    if first.begins_with(OK) {
        let follow = match first.body.len() {
            // Its columns, and its values.
            PREPARED_LEN => first.count(5) + first.count(7),
            _ => 0,
        };
        return skip(bytes, first.end, follow);
    }
    // Rows, behind a packet for each column.
    let columns = first.body.first().map_or(0, |count| usize::from(*count));
    let mut at = skip(bytes, first.end, columns)?;
    loop {
        let row = Packet::first(bytes.get(at..)?)?;
        at += row.end;
        if row.begins_with(END) || row.begins_with(ERROR) {
            return Some(at);
        }
    }
}

/// Where so many packets end that begin here.
fn skip(bytes: &[u8], from: usize, packets: usize) -> Option<usize> {
    (0..packets).try_fold(from, |at, _| Some(at + Packet::first(bytes.get(at..)?)?.end))
}

/// The verb of a request; "" if that is unknown.
fn verb_of(packet: &Packet<'_>) -> &'static str {
    match (packet.number, packet.body.first()) {
        (0, Some(0x01)) => "QUIT",
        (0, Some(0x03)) => "QUERY",
        (0, Some(0x0e)) => "PING",
        (0, Some(0x16)) => "PREPARE",
        (0, Some(0x17)) => "EXECUTE",
        (0, Some(0x19)) => "CLOSE",
        (0, _) => "",
        _ => "LOGIN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_le_bytes();
        [&length[..3], &[number], body].concat()
    }

    #[test]
    fn an_answer_ends_where_its_first_packet_says() {
        let prepared = [OK, 7, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0];
        let rows = [packet(1, &[2]), packet(2, b"a"), packet(3, b"b"), packet(4, &[OK, 1])];
        for whole in [
            packet(0, b"\x0a10.11"),
            packet(2, &[OK, 0, 0, 2, 0, 0, 0]),
            packet(1, &[OK, 1, 0xfe, 1, 2, 3, 4, 5, 6, 7, 8, 2, 0, 0, 0]),
            packet(1, b"\xff\x15\x04#28000no"),
            [packet(1, &prepared), packet(2, b"p"), packet(3, b"p"), packet(4, b"c")].concat(),
            [rows.concat(), packet(5, &[END, 0, 0, 2, 0, 0, 0])].concat(),
        ] {
            for end in 0..whole.len() {
                assert_eq!(answer_len(&whole[..end]), None, "{whole:?} cut at {end}");
            }
            let followed = [&whole[..], &packet(1, &[OK, 0, 0, 2, 0, 0, 0])].concat();
            assert_eq!(answer_len(&followed), Some(whole.len()), "{whole:?}");
        }
        let verb = |bytes: &[u8]| verb_of(&Packet::first(bytes).unwrap());
        assert_eq!(verb(&packet(0, b"\x17key")), "EXECUTE");
        assert_eq!(verb(&packet(1, b"\x17key")), "LOGIN");
    }
}
