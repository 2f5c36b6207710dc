//! The few bytes of protobuf that the details of a gRPC status need.

/// A message in the making. Fields are written in the order of the calls.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

/// How a field is written, in the low bits of its tag.
const VARINT: u64 = 0;
const LENGTH_DELIMITED: u64 = 2;

impl Message {
    pub(super) fn number(mut self, field: u64, number: u64) -> Self {
        self.varint(field << 3 | VARINT);
        self.varint(number);
        self
    }

    pub(super) fn text(self, field: u64, text: &str) -> Self {
        self.delimited(field, text.as_bytes())
    }

    pub(super) fn message(self, field: u64, message: &Self) -> Self {
        self.delimited(field, message.as_bytes())
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn delimited(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Seven bits a byte, the low ones first; the high bit says that more follow.
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_protobuf_has_them() {
        let inner = Message::default().number(1, 300);
        let outer = Message::default().text(2, "testing").message(3, &inner);
        assert_eq!(outer.as_bytes(), b"\x12\x07testing\x1a\x03\x08\xac\x02");
        let most = Message::default().number(1, u64::MAX);
        assert_eq!(most.as_bytes(), b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    }
}
