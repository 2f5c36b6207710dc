//! How things are called at the server.

use std::fmt;
use std::io::Write as _;
use std::sync::Arc;

use redis::{Cmd, RedisWrite, ToRedisArgs};

use crate::backend::ClaimId;
use crate::key::Key;

/// The names of one lock's keys, in the order in which every script takes them.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// `lock:{K}`; the others are this and a suffix.
    lock: Arc<str>,
}

const SUFFIXES: [&str; 4] = ["", ":queue", ":due", ":fence"];

/// What a member of a quorum keeps, without an end: its enrolment, and the highest token that it
/// reserved. No lock has such a name, as theirs are in braces.
pub(super) const QUORUM: [&str; 2] = ["lock:quorum", "lock:quorum:high"];

impl Names {
    pub(super) fn new(key: &Key) -> Self {
        // Not formatted: every claim makes one.
        Self { lock: ["lock:{", key.as_str(), "}"].concat().into() }
    }

    /// The key whose value is the claim that holds the lock.
    pub(super) fn lock(&self) -> &str {
        &self.lock
    }

    /// Adds the keys to a command, after their number.
    pub(super) fn add_to(&self, command: &mut Cmd) {
        for suffix in SUFFIXES {
            let mut name = command.writer_for_next_arg();
            // Into memory.
            let _ = name.write_all(self.lock.as_bytes());
            let _ = name.write_all(suffix.as_bytes());
        }
    }

    /// The bytes that [`add_to`](Self::add_to) adds.
    pub(super) fn bytes(&self) -> usize {
        let suffixes: usize = SUFFIXES.iter().map(|suffix| suffix.len()).sum();
        self.lock.len() * SUFFIXES.len() + suffixes
    }

    pub(super) const fn count() -> usize {
        SUFFIXES.len()
    }
}

/// A claim as it is written at the server: who, and where to reach it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) claim: ClaimId,
    pub(super) session: &'a str,
}

/// The digits of a claim's id.
const CLAIM_DIGITS: usize = 32;

impl Owner<'_> {
    /// How long it is.
    pub(super) fn bytes(&self) -> usize {
        CLAIM_DIGITS + 1 + self.session.len()
    }
}

impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.claim, self.session)
    }
}

impl ToRedisArgs for Owner<'_> {
    /// As it is displayed, without the machinery for that: it is a part of every request, and of a
    /// renewal many times.
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let mut digits = [b'.'; CLAIM_DIGITS + 1];
        let mut bits = self.claim.bits();
        for digit in digits[..CLAIM_DIGITS].iter_mut().rev() {
            *digit = b"0123456789abcdef"[(bits & 0xf) as usize];
            bits >>= 4;
        }
        let mut owner = out.writer_for_next_arg();
        // Into memory.
        let _ = owner.write_all(&digits);
        let _ = owner.write_all(self.session.as_bytes());
    }
}

/// The channel of a session.
pub(super) fn channel(session: &str) -> String {
    format!("lock:push:{session}")
}

/// The claim in an owner that one of our clients wrote.
pub(super) fn claim_of(owner: &[u8]) -> Option<ClaimId> {
    let owner = std::str::from_utf8(owner).ok()?;
    let (claim, session) = owner.split_once('.')?;
    if claim.len() != CLAIM_DIGITS || session.is_empty() {
        return None;
    }
    u128::from_str_radix(claim, 16).ok().map(ClaimId::from_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn len(arg: redis::Arg<&[u8]>) -> usize {
        match arg {
            redis::Arg::Simple(arg) => arg.len(),
            _ => 0,
        }
    }

    #[test]
    fn all_keys_of_a_lock_share_one_hash_tag() {
        let names = Names::new(&Key::new("order:4{2}").unwrap());
        let mut command = redis::cmd("X");
        names.add_to(&mut command);
        let packed = String::from_utf8(command.get_packed_command()).unwrap();
        assert_eq!(packed.matches("lock:{order:4%7B2%7D}").count(), Names::count());
        assert_eq!(command.args_iter().map(len).sum::<usize>(), "X".len() + names.bytes());
    }

    #[test]
    fn an_owner_can_be_read_back_and_a_foreign_value_is_none() {
        for bits in [7, u128::MAX, 0x0123_4567_89ab_cdef << 40] {
            let claim = ClaimId::from_bits(bits);
            let owner = Owner { claim, session: "ab" };
            assert_eq!(claim_of(owner.to_string().as_bytes()), Some(claim));
            assert_eq!(owner.to_redis_args(), [owner.to_string().into_bytes()]);
            assert_eq!(owner.bytes(), owner.to_string().len());
        }
        for foreign in [&b"0123456789abcdef0123456789abcdef"[..], b"", b"\xff.x", b"1.a"] {
            assert_eq!(claim_of(foreign), None);
        }
    }
}
