//! The name of what is locked.
//!
//! A key is a list of segments joined by `:`. Inside a segment every byte that could change the
//! meaning of a key elsewhere is percent-encoded: `{ } / : %`, blanks, control bytes and all
//! bytes outside ASCII. So two different lists of segments never give one key, and user data
//! cannot escape into a Redis hash tag, a ZooKeeper path or a log line.
//!
//! ```
//! use lock_core::Key;
//!
//! assert_eq!(Key::new("order:42")?.as_str(), "order:42");
//! assert_eq!(Key::from_segments(["order", "4:2"])?.as_str(), "order:4%3A2");
//! assert_ne!(Key::from_segments(["a", "b"])?, Key::from_segments(["a:b"])?);
//! # Ok::<(), lock_core::error::KeyError>(())
//! ```

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::limits::KEY_BYTES_MAX;

/// How much of a bad key an error message repeats, in bytes of its escaped form.
const SHOWN_BYTES_MAX: usize = 64;

/// Most keys are no longer, in bytes.
const MOST_BYTES: usize = 64;

const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'{').add(b'}').add(b'/').add(b':').add(b'%');

/// The name of what is locked: not empty, at most [`KEY_BYTES_MAX`] bytes encoded, cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// Makes a key of text in which `:` separates the segments; each segment is encoded.
    ///
    /// Use [`Key::from_segments`] when a part comes from outside: text given here may add
    /// segments of its own.
    ///
    /// # Errors
    ///
    /// [`KeyError`] when the text is empty or its encoded form is over [`KEY_BYTES_MAX`] bytes.
    pub fn new(text: &str) -> Result<Self, KeyError> {
        if text.bytes().all(is_plain) && !has_dots(text) {
            return Self::checked(text, text);
        }
        Self::join(text.split(':'), text)
    }

    /// Makes a key of segments; a `:` inside a segment is encoded, so the list can be read back.
    ///
    /// # Errors
    ///
    /// [`KeyError`] when there is no segment, the only one is empty, or the encoded form is over
    /// [`KEY_BYTES_MAX`] bytes.
    pub fn from_segments<I>(segments: I) -> Result<Self, KeyError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut encoded = String::with_capacity(MOST_BYTES);
        for (index, segment) in segments.into_iter().enumerate() {
            if index > 0 {
                encoded.push(':');
            }
            encoded.push_str(&Self::encode_segment(segment.as_ref()));
        }
        Self::checked(&encoded, &encoded)
    }

    /// Takes text that is made of encoded segments joined by `:` already.
    ///
    /// # Errors
    ///
    /// [`KeyError`] when the text is empty, too long, or holds a byte that an encoded key cannot
    /// hold.
    pub fn from_encoded(text: impl AsRef<str>) -> Result<Self, KeyError> {
        let text = text.as_ref();
        let legal = |byte: u8| is_plain(byte) || byte == b'%';
        if !text.bytes().all(legal) || has_dots(text) {
            return Err(KeyError::NotEncoded { key: escape(text) });
        }
        Self::checked(text, text)
    }

    /// The encoding that [`Key::from_segments`] gives to one segment.
    #[must_use]
    pub fn encode_segment(segment: &str) -> Cow<'_, str> {
        if is_dots(segment) {
            return Cow::Owned(segment.replace('.', "%2E"));
        }
        utf8_percent_encode(segment, ENCODED).into()
    }

    /// This key below a prefix, as segments behind its own. Whoever calls it sees to the length.
    pub(crate) fn below(&self, prefix: &Self) -> Self {
        Self([prefix.as_str(), ":", self.as_str()].concat().into())
    }

    /// This key as those below a prefix name it; `None` if it is not below.
    pub(crate) fn within(&self, prefix: &Self) -> Option<Self> {
        let below = self.0.strip_prefix(prefix.as_str())?.strip_prefix(':')?;
        (!below.is_empty()).then(|| Self(below.into()))
    }

    /// The encoded form, as every store and every log line has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn join<'a>(segments: impl Iterator<Item = &'a str>, original: &str) -> Result<Self, KeyError> {
        let encoded: Vec<_> = segments.map(Self::encode_segment).collect();
        Self::checked(&encoded.join(":"), original)
    }

    fn checked(encoded: &str, original: &str) -> Result<Self, KeyError> {
        match encoded.len() {
            0 => Err(KeyError::Empty),
            1..=KEY_BYTES_MAX => Ok(Self(encoded.into())),
            bytes => Err(too_long(original, bytes, KEY_BYTES_MAX)),
        }
    }
}

/// The error of text that takes so many bytes as a key.
pub(crate) fn too_long(text: &str, bytes: usize, max: usize) -> KeyError {
    KeyError::TooLong { key: escape(text), bytes, max }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}' | b'/' | b'%')
}

fn has_dots(text: &str) -> bool {
    text.contains('.') && text.split(':').any(is_dots)
}

/// `.` and `..` are no names for a ZooKeeper node.
fn is_dots(segment: &str) -> bool {
    segment == "." || segment == ".."
}

fn escape(text: &str) -> String {
    let mut shown = String::new();
    for part in text.chars().map(char::escape_default) {
        if shown.len() + part.len() > SHOWN_BYTES_MAX {
            shown.push('…');
            break;
        }
        shown.extend(part);
    }
    shown
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.0)
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Why text is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is nothing to name the lock by.
    #[error("a key must not be empty")]
    Empty,
    /// The encoded form is over [`KEY_BYTES_MAX`] bytes, or over what the client's prefix leaves of
    /// them.
    #[error("the key `{key}` takes {bytes} bytes encoded, at most {max} are allowed")]
    TooLong {
        /// The beginning of the key, escaped.
        key: String,
        /// The length of its encoded form.
        bytes: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// [`Key::from_encoded`] was given text with a byte that must be encoded.
    #[error("the key `{key}` is not encoded: use `Key::from_segments`")]
    NotEncoded {
        /// The beginning of the key, escaped.
        key: String,
    },
    /// The `Display` of a value in a key template returned an error.
    #[error("the key `{key}` is not whole: a value in it could not be displayed")]
    Display {
        /// The part of the key that there is, encoded.
        key: String,
    },
}

/// A value that can be given where a key is wanted: text (see [`Key::new`]), an integer, a `Uuid`
/// (feature `uuid`), a [`Key`], or the result of making one, whose error is then reported by the
/// acquire.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no key",
    label = "expected text, an integer, a `Key`, or the result of making one",
    note = "of several values, or of text from outside: `Key::from_segments([\"order\", &id])`"
)]
pub trait IntoKey {
    /// Makes the key.
    ///
    /// # Errors
    ///
    /// [`KeyError`], as [`Key::new`] has it.
    fn into_key(self) -> Result<Key, KeyError>;
}

impl IntoKey for &str {
    fn into_key(self) -> Result<Key, KeyError> {
        Key::new(self)
    }
}

impl IntoKey for String {
    fn into_key(self) -> Result<Key, KeyError> {
        Key::new(&self)
    }
}

impl IntoKey for &String {
    fn into_key(self) -> Result<Key, KeyError> {
        Key::new(self)
    }
}

impl IntoKey for Key {
    fn into_key(self) -> Result<Key, KeyError> {
        Ok(self)
    }
}

impl IntoKey for &Key {
    fn into_key(self) -> Result<Key, KeyError> {
        Ok(self.clone())
    }
}

macro_rules! of_integers {
    ($($integer:ty)*) => {$(
        /// Its decimal digits.
        impl IntoKey for $integer {
            fn into_key(self) -> Result<Key, KeyError> {
                Key::new(&self.to_string())
            }
        }
    )*};
}

of_integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

/// Its hyphenated form.
#[cfg(feature = "uuid")]
impl IntoKey for uuid::Uuid {
    fn into_key(self) -> Result<Key, KeyError> {
        Key::new(self.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()))
    }
}

impl IntoKey for Result<Key, KeyError> {
    fn into_key(self) -> Result<Key, KeyError> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_a_store_or_a_log_could_misread_is_left_in_a_key() {
        for text in ["{", "}", "/", "%", "\0", "\n", "\u{7f}", "é", "😀", " ", ".", ".."] {
            let key = Key::new(text).unwrap();
            assert!(key.as_str().bytes().all(|b| is_plain(b) || b == b'%'), "{text:?} -> {key}");
            assert_ne!(key.as_str(), text);
        }
    }

    #[test]
    fn an_empty_or_oversized_key_is_refused_with_its_bound() {
        assert_eq!(Key::new(""), Err(KeyError::Empty));
        assert_eq!(Key::from_segments::<[&str; 0]>([]), Err(KeyError::Empty));
        assert!(Key::new(&"k".repeat(KEY_BYTES_MAX)).is_ok());
        let error = Key::new(&"\n".repeat(1 << 20)).unwrap_err().to_string();
        assert!(error.contains("3145728 bytes") && error.contains("512"), "{error}");
        assert!(error.len() < 200 && !error.contains('\n'));
    }

    #[test]
    fn integers_and_uuids_are_keys() {
        let text = |key: Result<Key, KeyError>| key.unwrap().to_string();
        assert_eq!(text(42_u64.into_key()), "42");
        assert_eq!(text(i128::MIN.into_key()), i128::MIN.to_string());
        #[cfg(feature = "uuid")]
        assert_eq!(
            text(uuid::Uuid::from_u128(0xAB).into_key()),
            "00000000-0000-0000-0000-0000000000ab"
        );
    }

    #[test]
    fn text_that_is_not_encoded_is_not_taken_for_a_key() {
        assert!(Key::from_encoded("order:4%3A2").is_ok());
        assert!(matches!(Key::from_encoded("a{b}"), Err(KeyError::NotEncoded { .. })));
        assert!(matches!(Key::from_encoded(".."), Err(KeyError::NotEncoded { .. })));
    }

    proptest! {
        #[test]
        fn two_lists_of_segments_never_give_one_key(
            a in prop::collection::vec("\\PC{0,4}|[:%/{}.]{0,3}", 1..4),
            b in prop::collection::vec("\\PC{0,4}|[:%/{}.]{0,3}", 1..4),
        ) {
            if let (Ok(left), Ok(right)) = (Key::from_segments(&a), Key::from_segments(&b)) {
                prop_assert_eq!(left == right, a == b);
            }
        }

        #[test]
        fn a_key_is_its_own_encoded_form(text in "\\PC{1,40}") {
            let key = Key::new(&text).unwrap();
            prop_assert_eq!(&Key::from_encoded(key.as_str()).unwrap(), &key);
            prop_assert_eq!(Key::from_segments(text.split(':')).unwrap(), key);
        }
    }
}
