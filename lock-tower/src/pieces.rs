//! A body in one piece.

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body::SizeHint;

/// The data that was read of a body: one frame as it came, more of them in one piece. A list of
/// frames would let a body of single bytes take many times its length.
#[derive(Default)]
pub(crate) struct Pieces {
    first: Bytes,
    more: BytesMut,
    pub(crate) trailers: Option<HeaderMap>,
}

impl Pieces {
    pub(crate) fn add(&mut self, mut data: impl Buf) {
        let data = data.copy_to_bytes(data.remaining());
        if self.first.is_empty() && self.more.is_empty() {
            self.first = data;
        } else if !data.is_empty() {
            self.more.extend_from_slice(&std::mem::take(&mut self.first));
            self.more.extend_from_slice(&data);
        }
    }

    #[cfg(feature = "idempotency")]
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.more.len()
    }

    /// The data that was read by now.
    #[cfg(feature = "idempotency")]
    pub(crate) fn so_far(&self) -> Bytes {
        match self.more.is_empty() {
            true => self.first.clone(),
            false => Bytes::copy_from_slice(&self.more),
        }
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        if self.more.is_empty() { self.first } else { self.more.freeze() }
    }
}

/// How much of a body in one piece is left. Not exactly where trailers follow: a server makes a
/// `content-length` of an exact one, and over HTTP/1.1 the trailers would be lost.
pub(crate) fn size_hint(data: Option<&Bytes>, trailers: Option<&HeaderMap>) -> SizeHint {
    let bytes = data.map_or(0, Bytes::len) as u64;
    let mut hint = SizeHint::new();
    hint.set_lower(bytes);
    if trailers.is_none() {
        hint.set_upper(bytes);
    }
    hint
}
