//! The names of nodes.

use crate::backend::ClaimId;
use crate::key::Key;

/// How Curator begins the name of a node whose creation it can recognise after a lost reply.
const PROTECTED: &str = "_c_";

/// What stands between the id and the sequence number, see `proto/children.rs`.
const LOCK: &str = "-lock-";

/// The length of a UUID as text.
const UUID_CHARS: usize = 36;

/// The directory of our sessions' own nodes. No key has this name, as braces are encoded in keys.
const SESSIONS: &str = "{lock-sessions}";

/// The directory of the token counters of a quorum's member.
const TOKENS: &str = "{lock-tokens}";

/// Which quorum the server is a member of.
const ENROLMENT: &str = "{lock-quorum}";

/// ZooKeeper's own node at the root of the tree.
const RESERVED: &str = "zookeeper";

/// The lock directory of a key.
pub(super) fn directory(root: &str, key: &Key) -> String {
    format!("{root}/{key}")
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

/// What the node of a claim is called before the server adds the sequence number.
pub(super) fn prefix(id: ClaimId) -> String {
    let hex = id.to_string();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    format!("{PROTECTED}{}{LOCK}", parts.join("-"))
}

/// Whose node this is, for people: a claim's id where it can be one, else the name.
pub(super) fn claimant(node: &str) -> String {
    let id = node.strip_prefix(PROTECTED).and_then(|rest| rest.split_at_checked(UUID_CHARS));
    match id {
        Some((uuid, rest)) if rest.starts_with(LOCK) => {
            uuid.chars().filter(|c| *c != '-').collect()
        }
        _ => node.escape_debug().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_of_a_claim_looks_like_curators_own() {
        let id = ClaimId::from_bits(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let prefix = prefix(id);
        assert_eq!(prefix, "_c_01234567-89ab-cdef-0123-456789abcdef-lock-");
        assert_eq!(claimant(&format!("{prefix}0000000007")), id.to_string());
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
