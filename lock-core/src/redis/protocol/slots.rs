//! Slots: which one a key is in, and a channel for each.

use std::sync::LazyLock;

/// The number of slots in a cluster.
pub(in crate::redis) const SLOTS: u16 = 16_384;

/// The slot of a key or a channel: of its hash tag, if it has one.
pub(in crate::redis) fn slot_of(name: &[u8]) -> u16 {
    let tag = || {
        let from = name.iter().position(|byte| *byte == b'{')? + 1;
        let length = name[from..].iter().position(|byte| *byte == b'}')?;
        (length > 0).then(|| &name[from..from + length])
    };
    crc16::State::<crc16::XMODEM>::calculate(tag().unwrap_or(name)) % SLOTS
}

/// A short text in each slot.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![u32::MAX; usize::from(SLOTS)];
    let mut missing = tags.len();
    let mut number = 0;
    while missing > 0 {
        let tag = &mut tags[usize::from(slot_of(number.to_string().as_bytes()))];
        if *tag == u32::MAX {
            *tag = number;
            missing -= 1;
        }
        number += 1;
    }
    tags
});

/// A hash tag of the slot, which the slot's channels have in common.
pub(in crate::redis) fn tag_of(slot: u16) -> u32 {
    TAGS[usize::from(slot % SLOTS)]
}

/// The channel of a session for the locks in one slot.
pub(in crate::redis) fn channel(slot: u16, session: &str) -> String {
    format!("lock:push:{{{}}}:{session}", tag_of(slot))
}

/// The slot of a channel that [`channel`] named.
pub(in crate::redis) fn slot_of_channel(channel: &[u8]) -> Option<u16> {
    channel.starts_with(b"lock:push:{").then(|| slot_of(channel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        // CRC16 of the check string, as the cluster specification has it.
        assert_eq!(slot_of(b"123456789"), 0x31C3 % SLOTS);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"{foo}.bar"), slot_of(b"foo"));
        assert_eq!(slot_of(b"foo{}{bar}"), slot_of(b"foo{}{bar}"));
        assert_ne!(slot_of(b"foo{}{bar}"), slot_of(b"bar"));
        assert_eq!(slot_of(b"foo{{bar}}"), slot_of(b"{bar"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
        assert_eq!(slot_of(b"foo{bar"), slot_of(b"foo{bar"));
    }

    #[test]
    fn every_slot_has_a_channel_of_its_own_in_that_slot() {
        for slot in 0..SLOTS {
            let channel = channel(slot, "ab");
            assert_eq!(slot_of(channel.as_bytes()), slot);
            assert_eq!(slot_of_channel(channel.as_bytes()), Some(slot));
        }
        assert_eq!(slot_of_channel(b"lock:push:ab"), None);
    }
}
