//! The names of things at the server.

use std::fmt;
use std::io::Write as _;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use redis::{RedisWrite, ToRedisArgs};

use crate::backend::ClaimId;
use crate::key::Key;

/// The names of one lock's keys.
#[derive(Debug, Clone)]
pub(in crate::redis) struct Names(Key);

/// One of them: `lock:{K}`, or that and a suffix. Written where it is wanted, not built: every
/// request names some.
#[derive(Debug, Clone, Copy)]
pub(in crate::redis) struct Name<'a> {
    key: &'a Key,
    suffix: &'static str,
}

const PREFIX: &str = "lock:{";

/// The pattern of the keys whose value tells who holds a lock, of those below a prefix.
pub(in crate::redis) fn pattern(within: Option<&Key>) -> String {
    let mut pattern = String::from(PREFIX);
    for c in within.map_or("", Key::as_str).chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push_str(if within.is_some() { ":*}" } else { "*}" });
    pattern
}

/// The lock that such a key is of; `None` if it is not one of ours.
pub(in crate::redis) fn key_of(name: &[u8]) -> Option<Key> {
    let text = std::str::from_utf8(name).ok()?;
    Key::from_encoded(text.strip_prefix(PREFIX)?.strip_suffix('}')?).ok()
}

/// The keys that a member of a quorum keeps, without an end: its enrolment, and the highest token
/// that it reserved. No lock has such a name, as theirs are in braces.
pub(in crate::redis) const QUORUM: [&str; 2] = ["lock:quorum", "lock:quorum:high"];

/// The key that a server keeps, without an end: the highest token that it gave.
pub(in crate::redis) const CLOCK: &str = "lock:clock";

/// The same for the slot that has this tag, in a cluster.
pub(in crate::redis) fn clock(tag: u32) -> String {
    format!("{CLOCK}:{{{tag}}}")
}

impl Names {
    pub(in crate::redis) fn new(key: &Key) -> Self {
        Self(key.clone())
    }

    /// The part in braces, which has them all in one slot of a cluster.
    pub(in crate::redis) fn tag(&self) -> &[u8] {
        self.0.as_str().as_bytes()
    }

    /// The key whose value is the claim that holds the lock, or how several hold it together.
    pub(in crate::redis) fn lock(&self) -> Name<'_> {
        self.with("")
    }

    /// Waiting claims in order of arrival.
    pub(in crate::redis) fn queue(&self) -> Name<'_> {
        self.with(":queue")
    }

    /// Until when they count as alive.
    pub(in crate::redis) fn due(&self) -> Name<'_> {
        self.with(":due")
    }

    /// Those who hold the lock together, each with the end of its lease.
    pub(in crate::redis) fn held(&self) -> Name<'_> {
        self.with(":held")
    }

    /// The numbers of those who have permits.
    pub(in crate::redis) fn slots(&self) -> Name<'_> {
        self.with(":slots")
    }

    /// The value that the leader of an election publishes.
    pub(in crate::redis) fn value(&self) -> Name<'_> {
        self.with(":value")
    }

    /// Those who are told when that changes, each with the end of that.
    pub(in crate::redis) fn followers(&self) -> Name<'_> {
        self.with(":followers")
    }

    /// The last token that a member of a quorum reserved for this key.
    pub(in crate::redis) fn fence(&self) -> Name<'_> {
        self.with(":fence")
    }

    /// The key of the word of a claim that holds the lock for long: since when, and what for. Inspections
    /// make its name of the lock's, too.
    pub(in crate::redis) fn name_of(&self, claim: ClaimId) -> String {
        format!("{}:name:{claim}", self.lock())
    }

    fn with(&self, suffix: &'static str) -> Name<'_> {
        Name { key: &self.0, suffix }
    }
}

impl Name<'_> {
    /// The length of the name.
    pub(in crate::redis) fn bytes(&self) -> usize {
        PREFIX.len() + self.key.as_str().len() + 1 + self.suffix.len()
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}}}{}", self.key, self.suffix)
    }
}

impl ToRedisArgs for Name<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let mut name = out.writer_for_next_arg();
        for part in [PREFIX, self.key.as_str(), "}", self.suffix] {
            // Into memory.
            let _ = name.write_all(part.as_bytes());
        }
    }
}

impl redis::ToSingleRedisArg for Name<'_> {}

/// The key of a lock, as it is in the name of that.
pub(in crate::redis) fn key_of_lock(name: &[u8]) -> Option<&[u8]> {
    name.strip_prefix(PREFIX.as_bytes())?.strip_suffix(b"}")
}

/// A claim as it is written at the server: who, and where to reach it.
#[derive(Debug, Clone, Copy)]
pub(in crate::redis) struct Owner<'a> {
    pub(in crate::redis) claim: ClaimId,
    pub(in crate::redis) session: &'a str,
    /// The members of a quorum do not mark who is wanted.
    pub(in crate::redis) of_quorum: bool,
}

/// The digits of a claim's id.
const CLAIM_DIGITS: usize = 32;

impl Owner<'_> {
    /// The length of the text.
    pub(in crate::redis) fn bytes(&self) -> usize {
        CLAIM_DIGITS + 1 + self.session.len()
    }

    fn separator(&self) -> char {
        if self.of_quorum { UNMARKED } else { SEPARATOR }
    }
}

/// Behind the claim.
const SEPARATOR: char = ':';

/// Behind a claim of a quorum, which is never [`WANTED`].
const UNMARKED: char = '.';

/// Behind an owner, at the lock: others wait, so its release looks at the line.
const WANTED: char = '+';

impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.claim, self.separator(), self.session)
    }
}

impl ToRedisArgs for Owner<'_> {
    /// Writes what `Display` does, without its machinery: an owner is a part of every request, and
    /// of a renewal many times.
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let mut digits = [self.separator() as u8; CLAIM_DIGITS + 1];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.claim.bits().to_be_bytes()) {
            let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
        }
        let mut owner = out.writer_for_next_arg();
        // Into memory.
        let _ = owner.write_all(&digits);
        let _ = owner.write_all(self.session.as_bytes());
    }
}

/// The channel of a session.
pub(in crate::redis) fn channel(session: &str) -> String {
    format!("lock:push:{session}")
}

/// The characters that the server does not take in the name of a connection, and the mark of one.
const NOT_IN_NAMES: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// The name of a session's connections in the server's list of clients: so whoever sees an owner
/// finds out who it is.
pub(in crate::redis) fn connection(session: &str, label: &str) -> String {
    format!("lock:{session}:{}", utf8_percent_encode(label, NOT_IN_NAMES))
}

/// The session and the label in the name of one of our connections.
pub(in crate::redis) fn of_connection(name: &str) -> Option<(&str, String)> {
    let (session, label) = name.strip_prefix("lock:")?.split_once(':')?;
    Some((session, percent_decode_str(label).decode_utf8_lossy().into_owned()))
}

/// The claim in an owner that one of our clients wrote.
pub(in crate::redis) fn claim_of(owner: &[u8]) -> Option<ClaimId> {
    parts_of(owner).map(|(claim, _)| claim)
}

/// The session in such an owner.
pub(in crate::redis) fn session_of(owner: &[u8]) -> Option<&str> {
    parts_of(owner).map(|(_, session)| session)
}

fn parts_of(owner: &[u8]) -> Option<(ClaimId, &str)> {
    let owner = std::str::from_utf8(owner).ok()?;
    let (claim, session) = owner.split_once([SEPARATOR, UNMARKED])?;
    let session = session.strip_suffix(WANTED).unwrap_or(session);
    if claim.len() != CLAIM_DIGITS || session.is_empty() {
        return None;
    }
    let claim = u128::from_str_radix(claim, 16).ok()?;
    Some((ClaimId::from_bits(claim), session))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_lock_share_one_hash_tag() {
        let names = Names::new(&Key::new("order:4{2}").unwrap());
        let all = [names.queue(), names.due(), names.held(), names.slots(), names.fence()];
        let all = all.into_iter().chain([names.lock(), names.value(), names.followers()]);
        for name in all {
            let text = name.to_string();
            assert!(text.starts_with("lock:{order:4%7B2%7D}"), "{text}");
            assert_eq!(name.to_redis_args(), [text.clone().into_bytes()]);
            assert_eq!(name.bytes(), text.len());
        }
    }

    #[test]
    fn an_owner_can_be_read_back_and_a_foreign_value_is_none() {
        for bits in [7, u128::MAX, 0x0123_4567_89ab_cdef << 40] {
            let claim = ClaimId::from_bits(bits);
            for of_quorum in [false, true] {
                let owner = Owner { claim, session: "ab", of_quorum };
                for text in [owner.to_string(), format!("{owner}+")] {
                    assert_eq!(claim_of(text.as_bytes()), Some(claim));
                    assert_eq!(session_of(text.as_bytes()), Some("ab"));
                }
                assert_eq!(owner.to_redis_args(), [owner.to_string().into_bytes()]);
                assert_eq!(owner.bytes(), owner.to_string().len());
            }
        }
        for foreign in [&b"0123456789abcdef0123456789abcdef"[..], b"", b"\xff.x", b"1.a", b"1:a+"] {
            assert_eq!(claim_of(foreign), None);
        }
    }

    #[test]
    fn the_name_of_a_connection_is_what_the_server_takes_and_can_be_read_back() {
        for label in ["checkout@web-3", "host=web 3 pid=4711", "50 % für: alle", ""] {
            let name = connection("ab", label);
            assert!(name.bytes().all(|byte| byte.is_ascii_graphic()), "{name}");
            assert_eq!(of_connection(&name), Some(("ab", label.to_owned())));
        }
        for foreign in ["", "web-3", "lock:ab", "deadlock:a:b"] {
            assert_eq!(of_connection(foreign), None);
        }
    }
}
