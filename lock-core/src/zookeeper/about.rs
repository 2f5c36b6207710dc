//! The words of a claim about itself in its node. Whoever looks at a stuck lock wants to know where
//! its holder runs.

use std::process;
use std::sync::OnceLock;

use gethostname::gethostname;

/// The longest name of a host that is passed on.
const HOST_CHARS_MAX: usize = 128;

/// The data that another writes into a holder's node to ask it to give the lock up, as Curator
/// does.
pub(super) const REVOKE: &[u8] = b"__REVOKE__";

/// The longest data of a foreign node that is shown.
const SHOWN_BYTES_MAX: usize = 256;

/// Host, process id, and what the claim is for.
pub(super) fn data(name: Option<&str>) -> Vec<u8> {
    static HERE: OnceLock<String> = OnceLock::new();
    let here = HERE.get_or_init(|| {
        let host: String =
            gethostname().to_string_lossy().escape_debug().take(HOST_CHARS_MAX).collect();
        format!("host={host} pid={}", process::id())
    });
    match name {
        Some(name) => format!("{here} name={name}").into_bytes(),
        None => here.clone().into_bytes(),
    }
}

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
    fn a_claim_tells_its_host_its_process_and_its_name() {
        let text = String::from_utf8(data(Some("POST /buy"))).unwrap();
        assert!(text.starts_with("host="), "{text}");
        assert!(text.ends_with(&format!("pid={} name=POST /buy", process::id())), "{text}");
        assert!(!String::from_utf8(data(None)).unwrap().contains("name="));
    }

    #[test]
    fn data_of_others_cannot_escape_into_a_terminal() {
        assert_eq!(shown(b"10.0.0.1"), "10.0.0.1");
        assert_eq!(shown(b"\x1b[2J\n"), "\\u{1b}[2J\\n");
        assert!(shown(&[b'x'; 10_000]).len() <= SHOWN_BYTES_MAX);
    }
}
