//! The key of a call, from a template and the arguments.

use std::fmt::{self, Display};

use crate::Key;
use crate::error::KeyError;
use crate::key::IntoKey;
use crate::limits::KEY_BYTES_MAX;

/// `key = expr`.
///
/// # Errors
/// As the value's own [`IntoKey`].
pub fn key<K: IntoKey>(key: K) -> Result<Key, KeyError> {
    key.into_key()
}

/// The key of a function that has no parameters and no `key`: its module's path and its name.
///
/// # Errors
/// If the path is longer than a key may be.
pub fn function_key(module: &str, name: &str) -> Result<Key, KeyError> {
    Key::from_segments(module.split("::").chain([name]))
}

/// A value in the template of a key: whatever has a [`Display`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a part of a key: it has no `Display`",
    label = "no `Display`",
    note = "name a part that has one, as in `key = \"order:{{order.id}}\"`, or make the key with \
            `key = expr`"
)]
pub trait KeyPart {
    /// Writes it to the key.
    ///
    /// # Errors
    /// As its `Display`.
    fn write_to(&self, key: &mut dyn fmt::Write) -> fmt::Result;
}

#[diagnostic::do_not_recommend]
impl<V: Display + ?Sized> KeyPart for V {
    fn write_to(&self, key: &mut dyn fmt::Write) -> fmt::Result {
        write!(key, "{self}")
    }
}

/// A key in the making: fixed text and values alternate, and only the text can begin a segment.
#[derive(Debug)]
pub struct KeyParts {
    /// Raw text, encoded when the key is made; the last one is in the making.
    segments: Vec<String>,
    /// Bytes of values that were not kept, because no key is that long.
    dropped_bytes: usize,
    /// The `Display` of a value failed.
    failed: bool,
}

impl Default for KeyParts {
    fn default() -> Self {
        Self { segments: vec![String::new()], dropped_bytes: 0, failed: false }
    }
}

impl KeyParts {
    /// No text yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text of the template, whose ':' separate segments.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        let mut pieces = text.split(':');
        if let (Some(first), Some(segment)) = (pieces.next(), self.segments.last_mut()) {
            segment.push_str(first);
        }
        self.segments.extend(pieces.map(str::to_owned));
        self
    }

    /// Adds a value to the segment in hand. Whatever it contains, it ends no segment.
    #[must_use]
    pub fn value<V: KeyPart + ?Sized>(mut self, value: &V) -> Self {
        if let Some(segment) = self.segments.last_mut() {
            let mut bounded = Bounded { text: segment, dropped_bytes: &mut self.dropped_bytes };
            self.failed |= value.write_to(&mut bounded).is_err();
        }
        self
    }

    /// Makes the key.
    ///
    /// # Errors
    /// As [`Key::from_segments`]; and if the `Display` of a value failed, because half a value
    /// could name somebody else's lock.
    pub fn finish(self) -> Result<Key, KeyError> {
        let dropped = self.dropped_bytes;
        match Key::from_segments(&self.segments) {
            Ok(key) if self.failed => Err(KeyError::Display { key: key.to_string() }),
            Err(KeyError::TooLong { key, bytes, max }) => {
                Err(KeyError::TooLong { key, bytes: bytes + dropped, max })
            }
            other => other,
        }
    }
}

/// Keeps one byte more than the longest key, which is enough to be refused.
struct Bounded<'a> {
    text: &'a mut String,
    dropped_bytes: &'a mut usize,
}

impl fmt::Write for Bounded<'_> {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if self.text.len() > KEY_BYTES_MAX {
            *self.dropped_bytes += piece.len();
            return Ok(());
        }
        let room = KEY_BYTES_MAX + 1 - self.text.len();
        let kept = piece.char_indices().map(|(at, _)| at).find(|at| *at >= room);
        let kept = kept.unwrap_or(piece.len());
        self.text.push_str(&piece[..kept]);
        *self.dropped_bytes += piece.len() - kept;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_one_segment_whatever_it_contains() {
        let key = KeyParts::new().text("order:").value("4:2/{x}%").text(":end").finish().unwrap();
        assert_eq!(key, Key::from_segments(["order", "4:2/{x}%", "end"]).unwrap());
        assert_eq!(key.as_str().matches(':').count(), 2);
    }

    #[test]
    fn text_beside_a_value_is_encoded_with_it_as_one_segment() {
        // Dots alone are encoded as a segment, so that text and value can't be encoded apart.
        let key = KeyParts::new().text(".").value(&'.').finish().unwrap();
        assert_eq!(key, Key::from_segments([".."]).unwrap());
    }

    #[test]
    fn an_empty_value_does_not_move_the_others() {
        let key = |a: &str, b: &str| KeyParts::new().value(a).text(":").value(b).finish().unwrap();
        assert_ne!(key("", "a"), key("a", ""));
    }

    #[test]
    fn an_endless_value_is_refused_with_its_length_and_not_kept() {
        let long = "é".repeat(1 << 20);
        let parts = KeyParts::new().text("k:").value(&long).value(&long);
        assert!(parts.segments[1].len() <= KEY_BYTES_MAX + 2);
        match parts.finish() {
            Err(KeyError::TooLong { bytes, .. }) => assert!(bytes > 1 << 21, "{bytes}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_value_that_can_not_be_written_makes_no_key() {
        struct Broken;
        impl Display for Broken {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("half")?;
                Err(fmt::Error)
            }
        }
        assert!(KeyParts::new().text("k:").value(&Broken).finish().is_err());
    }
}
