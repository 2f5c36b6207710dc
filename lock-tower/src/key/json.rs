//! Keys of a value inside a JSON body.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http::{Request, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;
use serde_json::Value;

use super::body::{BufferedBody, is_too_large};
use super::extractor::{Extracted, KeyExtractor, KeyOutcome, KeyReject};
use super::head::one_segment;
use super::whole::Whole;
use crate::BoxError;

/// How much of a body [`json_pointer`] reads unless told otherwise: 64 KiB.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// A key of a value inside a JSON body, found by a JSON pointer (RFC 6901): `json_pointer("/sku")`.
/// A string, a number or a boolean makes one segment; `"1"` and `1` make the same.
///
/// The body is read up to [`bytes_max`](JsonPointerKey::bytes_max) before any waiting, and the
/// handler gets it as it was, with its trailers. The time for reading it is not bounded here.
///
/// | the body | the answer |
/// |---|---|
/// | is over the bound, announced or found | 413 `lock_body_too_large` |
/// | breaks off | 400 `lock_body_incomplete` |
/// | is no JSON | 400 `lock_body_invalid` |
/// | has nothing, `null` or `""` there | 400 `lock_key_missing` |
/// | has a list or an object there | 400 `lock_key_rejected` |
///
/// # Panics
///
/// If the pointer is neither empty nor begins with `/`.
#[track_caller]
#[must_use]
pub fn json_pointer(pointer: &str) -> JsonPointerKey {
    assert!(
        pointer.is_empty() || pointer.starts_with('/'),
        "bad JSON pointer `{pointer}`: it begins with `/`"
    );
    JsonPointerKey { pointer: pointer.into(), bytes_max: BODY_BYTES_MAX, optional: false }
}

/// See [`json_pointer`].
#[derive(Debug, Clone)]
pub struct JsonPointerKey {
    pointer: Arc<str>,
    bytes_max: usize,
    optional: bool,
}

impl JsonPointerKey {
    /// The longest body that is read, in bytes (default [`BODY_BYTES_MAX`]); a longer one is
    /// answered with 413.
    #[must_use]
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Lets a request with an empty body, or without a value there, run without a lock.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    fn outcome(&self, data: &[u8]) -> KeyOutcome {
        let what = || format!("`{}` of the body", self.pointer);
        if data.is_empty() {
            return one_segment(None, self.optional, what);
        }
        let body: Value = match serde_json::from_slice(data) {
            Ok(body) => body,
            Err(error) => {
                // Only the place: the text of the error may repeat what the client sent.
                let (line, column) = (error.line(), error.column());
                let detail = format!("the body is no JSON: error at line {line}, column {column}");
                return KeyReject::bad("lock_body_invalid", detail).into();
            }
        };
        match body.pointer(&self.pointer) {
            Some(Value::String(text)) => one_segment(Some(text), self.optional, what),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => {
                one_segment(Some(&value.to_string()), self.optional, what)
            }
            Some(Value::Array(_) | Value::Object(_)) => {
                let detail = format!("{} is no string, number or boolean", what());
                KeyReject::bad("lock_key_rejected", detail).into()
            }
            None | Some(Value::Null) => one_segment(None, self.optional, what),
        }
    }

    fn too_large(&self) -> KeyReject {
        KeyReject::new(StatusCode::PAYLOAD_TOO_LARGE)
            .with_code("lock_body_too_large")
            .with_detail(format!("the body is over {} bytes", self.bytes_max))
    }
}

impl<B> KeyExtractor<B> for JsonPointerKey
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Body = BufferedBody<B>;
    type Future = JsonPointerFuture<B>;

    fn extract(&self, request: Request<B>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let announced = body.size_hint().lower();
        let too_large = usize::try_from(announced).map_or(true, |bytes| bytes > self.bytes_max);
        let body = (!too_large).then(|| Whole::of(body, self.bytes_max));
        JsonPointerFuture { body, parts: Some(parts), key: self.clone() }
    }

    fn pass(&self, request: Request<B>) -> Request<Self::Body> {
        request.map(BufferedBody::untouched)
    }
}

pin_project! {
    /// Reads a body for its key; made by [`json_pointer`].
    pub struct JsonPointerFuture<B> {
        // None when the body is too large by its own word.
        #[pin]
        body: Option<Whole<B>>,
        parts: Option<Parts>,
        key: JsonPointerKey,
    }
}

impl<B> Future for JsonPointerFuture<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Output = Extracted<BufferedBody<B>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let read = match this.body.as_pin_mut() {
            Some(body) => ready!(body.poll(cx)).map_err(|error| {
                if is_too_large(&*error) {
                    this.key.too_large()
                } else {
                    KeyReject::bad("lock_body_incomplete", "the body broke off")
                }
            }),
            None => Err(this.key.too_large()),
        };
        let parts = this.parts.take().expect("polled again after it was ready");
        Poll::Ready(match read {
            Ok(read) => {
                let (body, data) = BufferedBody::buffered(read);
                Extracted::new(this.key.outcome(&data), Request::from_parts(parts, body))
            }
            Err(reject) => Extracted::Reject(reject, parts),
        })
    }
}

impl<B> fmt::Debug for JsonPointerFuture<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonPointerFuture").field("key", &self.key).finish_non_exhaustive()
    }
}
