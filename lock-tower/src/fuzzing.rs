//! Functions that the fuzz targets of `fuzz/` call, and their twins among the unit tests. Not for
//! users.

use bytes::Bytes;

use crate::idempotency::key::{self, KEY_BYTES_MAX};
use crate::idempotency::record::Stored;

/// Any bytes are a key within its bounds, the same when it is parsed again from its quoted form,
/// or refused.
pub fn key_parser(value: &[u8]) {
    let Ok(key) = key::parse(value) else { return };
    assert!((1..=KEY_BYTES_MAX).contains(&key.len()), "{} bytes", key.len());
    assert!(key.iter().all(|byte| matches!(byte, b' '..=b'~')), "{key:?}");
    let mut quoted = vec![b'"'];
    for byte in &*key {
        if matches!(byte, b'"' | b'\\') {
            quoted.push(b'\\');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    assert_eq!(key::parse(&quoted).as_deref(), Ok(&*key));
}

/// Any bytes are refused, or a response that encodes to the same response again.
pub fn record_decoder(record: &[u8]) {
    let Ok(stored) = Stored::decode(Bytes::copy_from_slice(record)) else { return };
    let again = stored.encode().expect("what fitted a record fits one");
    assert_eq!(Stored::decode(again), Ok(stored));
}
