//! The names of nodes.

use super::protocol::children::{self, Kind, PROTECTED, Permit};
use crate::backend::ClaimId;
use crate::key::Key;

/// The directories of the inner mutex of a key's permits, and of the permits.
const LOCKS: &str = "locks";
const LEASES: &str = "leases";

/// The directory of our sessions' own nodes. No key has this name, as braces are encoded in keys.
const SESSIONS: &str = "{lock-sessions}";

/// The directory of the token counters of a quorum's member.
const TOKENS: &str = "{lock-tokens}";

/// A child that comes and goes in the transaction that makes its directory.
const PASSING: &str = "{lock-passing}";

/// The node of the server's enrolment in a quorum.
const ENROLMENT: &str = "{lock-quorum}";

/// ZooKeeper's own node at the root of the tree.
const RESERVED: &str = "zookeeper";

/// The lock directory of a key.
pub(super) fn directory(root: &str, key: &Key) -> String {
    format!("{root}/{key}")
}

/// The line of those who want a permit of the key with this directory.
pub(super) fn locks(directory: &str) -> String {
    format!("{directory}/{LOCKS}")
}

/// The permits of the key with this directory.
pub(super) fn leases(directory: &str) -> String {
    format!("{directory}/{LEASES}")
}

/// Whether permits of the key with these children were ever asked for.
pub(super) fn has_permits(children: &[String]) -> bool {
    children.iter().any(|child| child == LOCKS || child == LEASES)
}

/// Whether ZooKeeper keeps the name of this key for itself.
pub(super) fn is_reserved(root: &str, key: &Key) -> bool {
    root.is_empty() && key.as_str() == RESERVED
}

/// The directory of our sessions' own nodes.
pub(super) fn sessions(root: &str) -> String {
    format!("{root}/{SESSIONS}")
}

/// The node of one session: its name is the session's id as ZooKeeper's tools write it.
pub(super) fn session(root: &str, id: i64) -> String {
    format!("{root}/{SESSIONS}/{id:#x}")
}

/// The child that comes and goes with the making of a directory.
pub(super) fn passing(directory: &str) -> String {
    format!("{directory}/{PASSING}")
}

/// The directory of the token counters.
pub(super) fn tokens(root: &str) -> String {
    format!("{root}/{TOKENS}")
}

/// One token counter.
pub(super) fn counter(root: &str, slot: u64) -> String {
    format!("{root}/{TOKENS}/{slot:03x}")
}

/// The node of the enrolment.
pub(super) fn enrolment(root: &str) -> String {
    format!("{root}/{ENROLMENT}")
}

/// The name of a claim's node before the server adds the sequence number.
pub(super) fn prefix(id: ClaimId, kind: Kind) -> String {
    let hex = id.to_string();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    format!("{PROTECTED}{}-{}", parts.join("-"), kind.mark())
}

/// The same for a claim on a permit.
pub(super) fn permit_prefix(id: ClaimId, kind: Kind, permit: Permit) -> String {
    let mut prefix = prefix(id, kind);
    let before_mark = prefix.len() - kind.mark().len();
    prefix.insert_str(before_mark, &format!("{permit}-"));
    prefix
}

/// The claimant of a node, for people: a claim's id where it can be one, else the name.
pub(super) fn claimant(node: &str) -> String {
    match children::claim(node) {
        Some(claim) => claim.chars().skip(PROTECTED.len()).filter(|c| *c != '-').collect(),
        None => node.escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_of_a_claim_looks_like_curators_own() {
        let id = ClaimId::from_bits(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        for (kind, mark) in [
            (Kind::Mutex, "lock-"),
            (Kind::Reader, "__READ__"),
            (Kind::Writer, "__WRIT__"),
            (Kind::Latch, "latch-"),
            (Kind::Lease, "lease-"),
        ] {
            let prefix = prefix(id, kind);
            assert_eq!(prefix, format!("_c_01234567-89ab-cdef-0123-456789abcdef-{mark}"));
            assert_eq!(claimant(&format!("{prefix}0000000007")), id.to_string());
        }
        for (slot, kind, text) in
            [(None, Kind::Mutex, "of5-lock-"), (Some(2), Kind::Lease, "slot2of5-lease-")]
        {
            let permit = Permit { slot, of: 5 };
            let prefix = permit_prefix(id, kind, permit);
            assert_eq!(prefix, format!("_c_01234567-89ab-cdef-0123-456789abcdef-{text}"));
            let name = format!("{prefix}0000000007");
            assert_eq!((claimant(&name), Permit::of(&name)), (id.to_string(), Some(permit)));
        }
        assert_eq!(claimant("a\nb"), "a\\nb");
        assert_eq!(claimant("_c_é"), "_c_é");
    }

    #[test]
    fn no_key_leads_to_a_node_of_another_use() {
        assert!(is_reserved("", &Key::new("zookeeper").unwrap()));
        assert!(!is_reserved("/locks", &Key::new("zookeeper").unwrap()));
        assert!(!is_reserved("", &Key::new("zookeeper:x").unwrap()));
        let braces = Key::new(SESSIONS).unwrap();
        assert_ne!(directory("/locks", &braces), sessions("/locks"));
        assert_eq!(session("", 0x10a), "/{lock-sessions}/0x10a");
    }
}
