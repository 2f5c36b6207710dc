//! How things are called at the server.

use crate::backend::ClaimId;
use crate::key::Key;

/// The names of one lock's keys, in the order in which every script takes them.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// `lock:{K}`; the others are this and a suffix.
    lock: Box<str>,
}

const SUFFIXES: [&str; 4] = ["", ":queue", ":due", ":fence"];

/// What a member of a quorum keeps, without an end: its enrolment, and the highest token that it
/// reserved. No lock has such a name, as theirs are in braces.
pub(super) const QUORUM: [&str; 2] = ["lock:quorum", "lock:quorum:high"];

impl Names {
    pub(super) fn new(key: &Key) -> Self {
        Self { lock: format!("lock:{{{key}}}").into() }
    }

    /// The key whose value is the claim that holds the lock.
    pub(super) fn lock(&self) -> &str {
        &self.lock
    }

    /// Adds the keys to a command, after their number.
    pub(super) fn add_to(&self, command: &mut redis::Cmd) {
        let mut name = String::with_capacity(self.lock.len() + 6);
        for suffix in SUFFIXES {
            name.clear();
            name.push_str(&self.lock);
            name.push_str(suffix);
            command.arg(&name);
        }
    }

    pub(super) const fn count() -> usize {
        SUFFIXES.len()
    }
}

/// A claim as it is written at the server: who, and where to reach it.
pub(super) fn owner(claim: ClaimId, session: &str) -> String {
    format!("{claim}.{session}")
}

/// The channel of a session.
pub(super) fn channel(session: &str) -> String {
    format!("lock:push:{session}")
}

/// The claim in an owner that one of our clients wrote.
pub(super) fn claim_of(owner: &[u8]) -> Option<ClaimId> {
    let owner = std::str::from_utf8(owner).ok()?;
    let (claim, session) = owner.split_once('.')?;
    if claim.len() != 32 || session.is_empty() {
        return None;
    }
    u128::from_str_radix(claim, 16).ok().map(ClaimId::from_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_lock_share_one_hash_tag() {
        let names = Names::new(&Key::new("order:4{2}").unwrap());
        let mut command = redis::cmd("X");
        names.add_to(&mut command);
        let packed = String::from_utf8(command.get_packed_command()).unwrap();
        assert_eq!(packed.matches("lock:{order:4%7B2%7D}").count(), Names::count());
    }

    #[test]
    fn an_owner_can_be_read_back_and_a_foreign_value_is_none() {
        let claim = ClaimId::from_bits(7);
        assert_eq!(claim_of(owner(claim, "ab").as_bytes()), Some(claim));
        for foreign in [&b"0123456789abcdef0123456789abcdef"[..], b"", b"\xff.x", b"1.a"] {
            assert_eq!(claim_of(foreign), None);
        }
    }
}
