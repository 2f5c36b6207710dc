//! The words of a claim about itself in its node. Whoever looks at a stuck lock wants to know where
//! its holder runs.

/// The data that another writes into a holder's node to ask it to give the lock up, as Curator
/// does.
pub(super) const REVOKE: &[u8] = b"__REVOKE__";

/// The longest data of a foreign node that is shown.
const SHOWN_BYTES_MAX: usize = 256;

/// The value that a candidate publishes, without a wish that it resign.
pub(super) fn published(data: &[u8]) -> &[u8] {
    let rest = data.strip_prefix(REVOKE).map(|rest| rest.strip_prefix(b" ").unwrap_or(rest));
    rest.unwrap_or(data)
}

/// The value that a candidate publishes, with the wish that it resign.
pub(super) fn with_wish(data: &[u8]) -> Vec<u8> {
    [REVOKE, b" ", published(data)].concat()
}

/// Whether the holder of the node with these data was asked to give up what it has.
pub(super) fn is_revoked(data: &[u8]) -> bool {
    data.starts_with(REVOKE)
}

/// The data of a node, for people.
pub(super) fn shown(data: &[u8]) -> String {
    let shown = &data[..data.len().min(SHOWN_BYTES_MAX)];
    String::from_utf8_lossy(shown).escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_others_cannot_escape_into_a_terminal() {
        assert_eq!(shown(b"10.0.0.1"), "10.0.0.1");
        assert_eq!(shown(b"\x1b[2J\n"), "\\u{1b}[2J\\n");
        assert!(shown(&[b'x'; 10_000]).len() <= SHOWN_BYTES_MAX);
    }
}
