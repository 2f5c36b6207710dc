//! The text of a claim about itself in the value of its key. A candidate's is the value that it
//! publishes; all others say where they run and what for. Before that stand words that the state of
//! the claim is told by.

use crate::backend::Terms;

/// The longest value of another client that is shown.
const SHOWN_BYTES_MAX: usize = 256;

/// Its holder is asked to give it up.
const REVOKE: &str = "__REVOKE__";

/// It was taken alone, and is beside readers since.
const SHARED: &str = "__SHARED__";

/// The number of a permit follows.
const SLOT: &str = "__SLOT__";

/// The value of a key, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct About {
    pub(super) is_revoked: bool,
    pub(super) is_shared: bool,
    pub(super) slot: Option<u32>,
    /// The text that is published, or shown to people.
    pub(super) text: Vec<u8>,
}

impl About {
    /// The text that a claim on these terms says of itself.
    pub(super) fn of(terms: &Terms) -> Self {
        Self { text: terms.about().into_bytes(), ..Self::default() }
    }

    /// The value that a candidate publishes.
    pub(super) fn published(value: &str) -> Self {
        Self { text: value.into(), ..Self::default() }
    }

    /// Whether the text would be taken for one of the words.
    pub(super) fn is_ambiguous(&self) -> bool {
        Self::read(&self.text, true).text != self.text
    }

    pub(super) fn read(value: &[u8], has_slot: bool) -> Self {
        let mut about = Self::default();
        let mut rest = value;
        while let Some((word, behind)) = word(rest) {
            match word {
                REVOKE => about.is_revoked = true,
                SHARED => about.is_shared = true,
                _ => match word.strip_prefix(SLOT).map(str::parse) {
                    Some(Ok(slot)) if has_slot => about.slot = Some(slot),
                    _ => break,
                },
            }
            rest = behind;
        }
        about.text = rest.to_vec();
        about
    }

    pub(super) fn written(&self) -> Vec<u8> {
        let slot = self.slot.map(|slot| format!("{SLOT}{slot}"));
        let words =
            [self.is_revoked.then_some(REVOKE), self.is_shared.then_some(SHARED), slot.as_deref()];
        let mut value = Vec::new();
        for word in words.into_iter().flatten() {
            value.extend_from_slice(word.as_bytes());
            value.push(b' ');
        }
        value.extend_from_slice(&self.text);
        value
    }

    /// The text, for people.
    pub(super) fn shown(&self) -> String {
        let shown = self.text.get(..SHOWN_BYTES_MAX).unwrap_or(&self.text);
        String::from_utf8_lossy(shown).escape_debug().to_string()
    }
}

/// The first word, and what is behind it.
fn word(value: &[u8]) -> Option<(&str, &[u8])> {
    let end = value.iter().position(|byte| *byte == b' ')?;
    let word = std::str::from_utf8(value.get(..end)?).ok()?;
    Some((word, value.get(end.saturating_add(1)..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let here = About::published("host=web-3 pid=4711 name=POST /buy");
        for about in [
            here.clone(),
            About { is_revoked: true, ..here.clone() },
            About { is_revoked: true, is_shared: true, ..here.clone() },
            About { slot: Some(7), is_revoked: true, ..here },
        ] {
            assert_eq!(About::read(&about.written(), true), about);
            assert!(!about.is_ambiguous());
        }
        for odd in ["__REVOKE__ me", "__SHARED__ x"] {
            assert!(About::published(odd).is_ambiguous(), "{odd}");
        }
        for plain in ["", "10.0.0.1", "__REVOKE__", " a b"] {
            assert_eq!(About::read(plain.as_bytes(), true).text, plain.as_bytes());
        }
    }

    #[test]
    fn values_of_others_cannot_escape_into_a_terminal() {
        assert_eq!(About::read(b"\x1b[2J\n", true).shown(), "\\u{1b}[2J\\n");
        assert!(About::read(&[b'x'; 10_000], true).shown().len() <= SHOWN_BYTES_MAX);
    }
}
