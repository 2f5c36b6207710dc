//! The name of a record.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::fingerprint::Fingerprint;
use super::scope::Scope;

/// The name of a record: HMAC-SHA256 of service, scope and key under the service's secret. It is
/// what the store, the lock and the logs see; the key itself goes nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId([u8; 32]);

impl RecordId {
    /// Takes the bytes, for a store that reads its own keys back.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The id in hexadecimal, 64 digits.
impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordId({self})")
    }
}

/// Makes the ids of one service under one secret. It has read the service's name already.
#[derive(Clone)]
pub(crate) struct Ids(Hmac<Sha256>);

fn under(secret: &[u8]) -> Hmac<Sha256> {
    // A key longer than the hash's block is hashed, a shorter one is padded: as HMAC has it.
    let mut block = [0; 64];
    if secret.len() > block.len() {
        use sha2::Digest as _;
        block[..32].copy_from_slice(&Sha256::digest(secret));
    } else {
        block[..secret.len()].copy_from_slice(secret);
    }
    Hmac::new(&block.into())
}

impl Ids {
    /// Two services that share a secret, as the one that everybody knows, have no id in common. Nor
    /// have two prefixes of the lock client: a record is no other's whose lock is another one.
    pub(crate) fn new(service: &str, prefix: Option<&str>, secret: &[u8]) -> Self {
        let mut mac = under(secret);
        mac.update(&(service.len() as u64).to_be_bytes());
        mac.update(service.as_bytes());
        if let Some(prefix) = prefix {
            // No scope has this tag.
            mac.update(&[3]);
            mac.update(&(prefix.len() as u64).to_be_bytes());
            mac.update(prefix.as_bytes());
        }
        Self(mac)
    }

    /// Every part is preceded by its length, so that no two pairs of scope and key give one id.
    pub(crate) fn id(&self, scope: &Scope, key: &[u8]) -> RecordId {
        let mut mac = self.0.clone();
        let (tag, scope) = match scope {
            Scope::Global => (0, ""),
            Scope::Of(scope) => (1, &**scope),
        };
        mac.update(&[tag]);
        for part in [scope.as_bytes(), key] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        RecordId(mac.finalize().into_bytes().into())
    }

    /// The fingerprint as it is stored: a bare hash would let whoever reads the store test guesses
    /// at what was asked, and see who asked the same.
    pub(crate) fn seal(&self, id: RecordId, fingerprint: Fingerprint) -> Fingerprint {
        let mut mac = self.0.clone();
        // No scope has this tag.
        mac.update(&[2]);
        mac.update(id.as_bytes());
        mac.update(fingerprint.as_bytes());
        Fingerprint::new(mac.finalize().into_bytes().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex(mac: &[u8]) -> String {
        mac.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 4231, test cases 2 and 6: a short secret, and one that is longer than a block.
    #[test]
    fn the_hash_is_hmac_sha256_for_secrets_of_any_length() {
        let of = |secret: &[u8], text: &[u8]| {
            let mut mac = under(secret);
            mac.update(text);
            hex(&mac.finalize().into_bytes())
        };
        assert_eq!(
            of(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            of(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn an_id_shows_neither_scope_nor_key() {
        let id = Ids::new("shop", None, b"a secret of the service")
            .id(&Scope::of("tenant-1"), b"order-42");
        for text in [format!("{id}"), format!("{id:?}")] {
            assert!(!text.contains("tenant") && !text.contains("order"), "{text}");
        }
        assert_eq!(id.to_string().len(), 64);
        assert_eq!(RecordId::from_bytes(*id.as_bytes()), id);
    }

    #[test]
    fn another_secret_gives_another_id() {
        let id = |secret: &[u8]| Ids::new("shop", None, secret).id(&Scope::Global, b"k");
        assert_ne!(id(b"one secret"), id(b"another"));
    }

    #[test]
    fn another_service_gives_another_id_whatever_is_asked_of_it() {
        let id = |service: &str, scope: &'static str, key: &[u8]| {
            Ids::new(service, None, b"secret").id(&Scope::of(scope), key)
        };
        assert_ne!(id("shop", "t", b"k"), id("shop-staging", "t", b"k"));
        assert_ne!(id("shop", "t", b"k"), id("sho", "pt", b"k"));
    }

    #[test]
    fn another_prefix_gives_another_id() {
        let id = |service, prefix| Ids::new(service, prefix, b"secret").id(&Scope::of("t"), b"k");
        assert_ne!(id("shop", None), id("shop", Some("staging")));
        assert_ne!(id("shop", Some("canary")), id("shop", Some("staging")));
        assert_ne!(id("shop", Some("a")), id("shopa", None));
    }

    #[test]
    fn a_stored_fingerprint_is_of_one_secret_one_record_and_one_request() {
        let (one, other) = (Ids::new("s", None, b"one secret"), Ids::new("s", None, b"another"));
        let [a, b] = [b"a", b"b"].map(|key| one.id(&Scope::Global, key));
        let asked = Fingerprint::new([1; 32]);
        let sealed = one.seal(a, asked);
        assert_eq!(sealed, one.seal(a, asked));
        for different in [
            asked,
            other.seal(a, asked),
            one.seal(b, asked),
            one.seal(a, Fingerprint::new([2; 32])),
        ] {
            assert_ne!(sealed, different);
        }
    }

    #[test]
    fn the_global_scope_is_none_of_the_named_ones() {
        let ids = Ids::new("shop", None, b"secret");
        assert_ne!(ids.id(&Scope::Global, b"k"), ids.id(&Scope::of(""), b"k"));
    }

    proptest! {
        #[test]
        fn two_pairs_of_scope_and_key_never_give_one_id(
            a in ("[ab\0]{0,3}", prop::collection::vec(97_u8..99, 0..4)),
            b in ("[ab\0]{0,3}", prop::collection::vec(97_u8..99, 0..4)),
        ) {
            let ids = Ids::new("shop", None, b"secret");
            let id = |(scope, key): &(String, Vec<u8>)| ids.id(&Scope::of(scope.clone()), key);
            prop_assert_eq!(id(&a) == id(&b), a == b);
        }
    }
}
