//! What a claim says of itself in its node: who looks at a stuck lock wants to know where its
//! holder runs.

use std::process;
use std::sync::OnceLock;

use gethostname::gethostname;

/// The longest name of a host that is passed on.
const HOST_CHARS_MAX: usize = 128;

/// What another writes into the node of a holder to ask it to give the lock up, as Curator has it.
pub(super) const REVOKE: &[u8] = REVOKE_WORD.as_bytes();
const REVOKE_WORD: &str = "__REVOKE__";

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

/// What the node of a claim on a permit says: which one of how many it has, or that it wants one.
pub(super) fn permit_data(permit: Permit, name: Option<&str>) -> Vec<u8> {
    let Permit { slot, of } = permit;
    let slot = slot.map(|slot| format!("slot={slot} ")).unwrap_or_default();
    [format!("{slot}of={of} ").into_bytes(), data(name)].concat()
}

/// A permit, or the wish for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Permit {
    /// Its number, once it is had.
    pub(super) slot: Option<u32>,
    /// How many there are.
    pub(super) of: u32,
}

/// What a node says of permits; nothing where it is another client's.
pub(super) fn permit(data: &[u8]) -> Option<Permit> {
    let text = std::str::from_utf8(data).ok()?;
    let text = text.strip_prefix(REVOKE_WORD).map_or(text, str::trim_start);
    let mut words = text.split(' ').peekable();
    let slot = words.peek().and_then(|word| word.strip_prefix("slot="));
    let slot = slot.map(str::parse).transpose().ok()?;
    if slot.is_some() {
        words.next();
    }
    let of = words.next()?.strip_prefix("of=")?.parse().ok()?;
    Some(Permit { slot, of })
}

/// The same data with the wish that the holder give up what it has; `None` for those of another
/// client, which has no such wish and may use them.
pub(super) fn with_wish(data: &[u8]) -> Option<Vec<u8>> {
    permit(data)?;
    Some(if is_revoked(data) { data.to_vec() } else { [REVOKE, b" ", data].concat() })
}

/// What a candidate publishes, without a wish that it resign.
pub(super) fn published(data: &[u8]) -> &[u8] {
    let rest = data.strip_prefix(REVOKE).map(|rest| rest.strip_prefix(b" ").unwrap_or(rest));
    rest.unwrap_or(data)
}

/// Whether somebody asked the holder of the node with these data to give up what it has.
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
    fn a_permit_is_known_by_its_data_before_and_after_it_is_asked_for() {
        for slot in [None, Some(0), Some(4)] {
            let (permit, own) = (Permit { slot, of: 5 }, Some("slot=9 of=9"));
            let data = permit_data(permit, own);
            assert_eq!(super::permit(&data), Some(permit));
            assert!(!is_revoked(&data));
            let asked = with_wish(&data).unwrap();
            assert!(is_revoked(&asked));
            assert_eq!(super::permit(&asked), Some(permit));
            assert_eq!(with_wish(&asked), Some(asked));
        }
        let text = String::from_utf8(permit_data(Permit { slot: Some(2), of: 5 }, None)).unwrap();
        assert!(text.starts_with("slot=2 of=5 host="), "{text}");
        for theirs in ["", "10.0.0.1", "slot=", "slot=x of=5", "slot=1", "of=-1", "__REVOKE__"] {
            assert_eq!(super::permit(theirs.as_bytes()), None, "{theirs}");
            assert_eq!(with_wish(theirs.as_bytes()), None, "{theirs}");
        }
        assert_eq!(super::permit(&data(Some("of=5"))), None);
    }

    #[test]
    fn data_of_others_cannot_escape_into_a_terminal() {
        assert_eq!(shown(b"10.0.0.1"), "10.0.0.1");
        assert_eq!(shown(b"\x1b[2J\n"), "\\u{1b}[2J\\n");
        assert!(shown(&[b'x'; 10_000]).len() <= SHOWN_BYTES_MAX);
    }
}
