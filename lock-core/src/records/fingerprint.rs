//! The fingerprint of a request, in 32 bytes.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The fingerprint of the request that was made under a key. A request whose fingerprint is another
/// than that of the record is no duplicate, and gets a
/// [`Mismatch`](crate::idempotency::Begun::Mismatch).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Takes 32 bytes that somebody else hashed.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Enough to tell two apart in a log.
        let [a, b, c, d, ..] = self.0;
        write!(f, "Fingerprint({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

/// Makes a [`Fingerprint`] of fields: SHA-256 over each field after its length, so that two lists
/// of fields never run into one another.
///
/// ```
/// use lock_core::idempotency::FingerprintBuilder;
///
/// let fingerprint = FingerprintBuilder::new().field(b"POST").field(b"/orders").finish();
/// let other = FingerprintBuilder::new().field(b"POST/").field(b"orders").finish();
/// assert_ne!(fingerprint, other);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a fingerprint is made by `finish`"]
pub struct FingerprintBuilder(Sha256);

impl FingerprintBuilder {
    /// No field yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field of any length, an empty one too.
    pub fn field(mut self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
        self
    }

    /// The fingerprint of all fields so far.
    #[must_use]
    pub fn finish(self) -> Fingerprint {
        Fingerprint(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(fields: &[Vec<u8>]) -> Fingerprint {
        fields.iter().fold(FingerprintBuilder::new(), FingerprintBuilder::field).finish()
    }

    proptest! {
        #[test]
        fn two_lists_of_fields_never_give_one_fingerprint(
            a in prop::collection::vec(prop::collection::vec(0_u8..2, 0..9), 0..4),
            b in prop::collection::vec(prop::collection::vec(0_u8..2, 0..9), 0..4),
        ) {
            prop_assert_eq!(of(&a) == of(&b), a == b);
        }
    }
}
