//! The text of modes, at the lock of a key that some hold together, and with those who wait.

use crate::backend::Mode;

/// Before the mode, at the lock.
const TOGETHER: &str = "lock:";

const SHARED: &str = "shared";

/// Before how many permits there are.
const PERMITS: &str = "permits:";

/// The mode as it is told to scripts; `None` for one that holds its key alone.
pub(in crate::redis) fn written(mode: Mode) -> Option<String> {
    match mode {
        Mode::Exclusive => None,
        Mode::Shared => Some(SHARED.to_owned()),
        Mode::Permit { of } => Some(format!("{PERMITS}{of}")),
    }
}

fn read(text: &str) -> Option<Mode> {
    if text == SHARED {
        return Some(Mode::Shared);
    }
    let of = text.strip_prefix(PERMITS)?.parse().ok()?;
    Some(Mode::Permit { of })
}

/// The mode in which a key is held together, by the value of the lock; `None` if it is not.
pub(in crate::redis) fn at_lock(value: &[u8]) -> Option<Mode> {
    read(std::str::from_utf8(value).ok()?.strip_prefix(TOGETHER)?)
}

/// The mode that a claim waits for, by the note of it. The note tells until when it counts as
/// alive, its lease, and the mode if it does not want the key alone.
pub(in crate::redis) fn of_waiter(due: &str) -> Mode {
    due.splitn(3, ':').nth(2).and_then(read).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_read_back_where_it_is_written() {
        for mode in [Mode::Shared, Mode::Permit { of: 1 }, Mode::Permit { of: 65_536 }] {
            let text = written(mode).unwrap();
            assert_eq!(at_lock(format!("lock:{text}").as_bytes()), Some(mode));
            assert_eq!(of_waiter(&format!("1700000000000:1500:{text}")), mode);
        }
        assert_eq!((written(Mode::Exclusive), of_waiter("1:2")), (None, Mode::Exclusive));
        for other in [&b"shared"[..], b"lock:", b"lock:permits:", b"lock:permits:x", b"\xff"] {
            assert_eq!(at_lock(other), None);
        }
    }
}
