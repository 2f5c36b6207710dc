//! A stored response as bytes.
//!
//! ```text
//! version   1 byte, 1
//! status    2 bytes
//! headers   2 bytes their number, then each: 2 bytes length, name, 4 bytes length, value
//! trailers  as headers
//! body      4 bytes length, then exactly that, and nothing behind it
//! ```
//!
//! Numbers are big-endian. Anything else is refused, so that a record of another version or a
//! truncated one is never answered with.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

const VERSION: u8 = 1;

/// More names than this are no response of ours: `http` itself stops at 2^15.
const FIELDS_MAX: usize = 4_096;

/// A response as it is replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) body: Bytes,
}

/// Why bytes are no stored response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordFault {
    /// Written by another version of this crate.
    Version(u8),
    /// Shorter than its lengths say, or longer.
    Length,
    /// A status, a name or a value that HTTP does not have.
    Content,
}

/// The response does not fit the lengths of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

impl Stored {
    /// The bytes of this response.
    pub(crate) fn encode(&self) -> Result<Bytes, TooLarge> {
        let mut record = BytesMut::with_capacity(64 + self.body.len());
        record.put_u8(VERSION);
        record.put_u16(self.status.as_u16());
        put_fields(&mut record, &self.headers)?;
        put_fields(&mut record, self.trailers.as_ref().unwrap_or(&HeaderMap::new()))?;
        record.put_u32(u32::try_from(self.body.len()).map_err(|_| TooLarge)?);
        record.put_slice(&self.body);
        Ok(record.freeze())
    }

    /// The response of these bytes.
    pub(crate) fn decode(mut record: Bytes) -> Result<Self, RecordFault> {
        let version = record.try_get_u8().map_err(|_| RecordFault::Length)?;
        if version != VERSION {
            return Err(RecordFault::Version(version));
        }
        let status = record.try_get_u16().map_err(|_| RecordFault::Length)?;
        let status = StatusCode::from_u16(status).map_err(|_| RecordFault::Content)?;
        let headers = get_fields(&mut record)?;
        let trailers = Some(get_fields(&mut record)?).filter(|trailers| !trailers.is_empty());
        let length = record.try_get_u32().map_err(|_| RecordFault::Length)?;
        if usize::try_from(length) != Ok(record.len()) {
            return Err(RecordFault::Length);
        }
        Ok(Self { status, headers, trailers, body: record })
    }
}

fn put_fields(record: &mut BytesMut, fields: &HeaderMap) -> Result<(), TooLarge> {
    if fields.len() > FIELDS_MAX {
        return Err(TooLarge);
    }
    record.put_u16(u16::try_from(fields.len()).map_err(|_| TooLarge)?);
    for (name, value) in fields {
        record.put_u16(u16::try_from(name.as_str().len()).map_err(|_| TooLarge)?);
        record.put_slice(name.as_str().as_bytes());
        record.put_u32(u32::try_from(value.len()).map_err(|_| TooLarge)?);
        record.put_slice(value.as_bytes());
    }
    Ok(())
}

fn get_fields(record: &mut Bytes) -> Result<HeaderMap, RecordFault> {
    let count = usize::from(record.try_get_u16().map_err(|_| RecordFault::Length)?);
    if count > FIELDS_MAX {
        return Err(RecordFault::Content);
    }
    let mut fields = HeaderMap::new();
    for _ in 0..count {
        let length = record.try_get_u16().map_err(|_| RecordFault::Length)?;
        // Lower-case only, as we write them: what we do not write is damage.
        let name = HeaderName::from_lowercase(&take(record, length.into())?)
            .map_err(|_| RecordFault::Content)?;
        let length = record.try_get_u32().map_err(|_| RecordFault::Length)?;
        let length = usize::try_from(length).map_err(|_| RecordFault::Length)?;
        let value = HeaderValue::from_maybe_shared(take(record, length)?)
            .map_err(|_| RecordFault::Content)?;
        fields.try_append(name, value).map_err(|_| RecordFault::Content)?;
    }
    Ok(fields)
}

/// Never allocates by a length that the record only claims.
fn take(record: &mut Bytes, length: usize) -> Result<Bytes, RecordFault> {
    if length > record.len() {
        return Err(RecordFault::Length);
    }
    Ok(record.split_to(length))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn stored() -> Stored {
        let mut headers = HeaderMap::new();
        headers.append("link", HeaderValue::from_static("</a>"));
        headers.append("content-type", HeaderValue::from_static("text/plain"));
        headers.append("link", HeaderValue::from_static("</b>"));
        let body = Bytes::from_static(b"sold");
        Stored { status: StatusCode::CREATED, headers, trailers: None, body }
    }

    #[test]
    fn a_record_keeps_its_form_over_versions_of_this_crate() {
        let expected = b"\x01\x00\xc9\x00\x03\
            \x00\x04link\x00\x00\x00\x04</a>\x00\x04link\x00\x00\x00\x04</b>\
            \x00\x0ccontent-type\x00\x00\x00\x0atext/plain\
            \x00\x00\x00\x00\x00\x04sold";
        assert_eq!(stored().encode().unwrap(), expected[..]);
    }

    #[test]
    fn a_record_that_is_cut_anywhere_is_refused() {
        let record = stored().encode().unwrap();
        for length in 0..record.len() {
            assert_eq!(
                Stored::decode(record.slice(..length)),
                Err(RecordFault::Length),
                "{length}"
            );
        }
        let longer = [&record[..], b"!"].concat();
        assert_eq!(Stored::decode(longer.into()), Err(RecordFault::Length));
    }

    #[test]
    fn a_record_of_another_version_or_with_what_http_has_not_is_refused() {
        for (at, byte, fault) in [
            (0, 2, RecordFault::Version(2)),
            (0, 0, RecordFault::Version(0)),
            // A status of 1, an upper-case name, a line break in a value.
            (1, 0xff, RecordFault::Content),
            (7, b'L', RecordFault::Content),
            (15, b'\n', RecordFault::Content),
        ] {
            let mut record = stored().encode().unwrap().to_vec();
            record[at] = byte;
            assert_eq!(Stored::decode(record.into()), Err(fault), "byte {at}");
        }
    }

    #[test]
    fn more_headers_than_any_response_has_are_no_record() {
        let mut headers = HeaderMap::new();
        for _ in 0..=FIELDS_MAX {
            headers.append("link", HeaderValue::from_static("</a>"));
        }
        assert_eq!(Stored { headers, ..stored() }.encode(), Err(TooLarge));
        let many = [1, 0, 200, 0xff, 0xff];
        assert_eq!(Stored::decode(Bytes::from_owner(many)), Err(RecordFault::Content));
    }

    fn fields() -> impl Strategy<Value = HeaderMap> {
        let value = vec(prop_oneof![0x20_u8..0x7f, 0x80_u8..=0xff, Just(b'\t')], 0..20);
        vec(("[a-d-]{1,3}", value), 0..8).prop_map(|fields| {
            let mut map = HeaderMap::new();
            for (name, value) in fields {
                let name = HeaderName::from_lowercase(name.as_bytes()).unwrap();
                map.append(name, HeaderValue::from_bytes(&value).unwrap());
            }
            map
        })
    }

    prop_compose! {
        fn any_stored()(
            status in 100_u16..1_000,
            headers in fields(),
            trailers in fields(),
            body in vec(any::<u8>(), 0..64),
        ) -> Stored {
            let status = StatusCode::from_u16(status).unwrap();
            let trailers = Some(trailers).filter(|trailers| !trailers.is_empty());
            Stored { status, headers, trailers, body: body.into() }
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(stored in any_stored()) {
            prop_assert_eq!(Stored::decode(stored.encode().unwrap()), Ok(stored));
        }

        /// The twin of the fuzz target `record_decoder`.
        #[test]
        fn any_bytes_are_refused_or_decode_to_a_response_that_encodes_again(record in vec(any::<u8>(), 0..200)) {
            crate::fuzzing::record_decoder(&record);
        }

        #[test]
        fn a_damaged_record_is_refused_or_decodes_to_a_response_that_encodes_again(
            stored in any_stored(),
            damage in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let mut record = stored.encode().unwrap().to_vec();
            for (at, byte) in damage {
                let at = at.index(record.len());
                record[at] = byte;
            }
            crate::fuzzing::record_decoder(&record);
        }
    }
}
