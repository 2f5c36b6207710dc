//! Keys of values inside a JSON body.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http::{Request, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;

use super::body::{BufferedBody, is_too_large};
use super::extractor::{Extracted, KeyExtractor, KeyOutcome};
use super::pointer::Pointer;
use super::template::{Kind, Template, Value};
use super::typed::typed_parts;
use super::whole::Whole;
use crate::BoxError;
use crate::answer::Reject;

/// How much of a body [`json_pointer`] reads unless told otherwise: 64 KiB.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

const KIND: Kind = Kind { call: "json_pointer", what: "the value of the body at" };

/// A key of values inside a JSON body: `json_pointer("order:{/id}").parsed::<u64>()`.
///
/// ```
/// use lock_tower::key::json_pointer;
///
/// // `{"id":7}` and `{"id":"7"}` are `order:7`; `7.0`, `7e0` and `"07"` are answered with 400.
/// let key = json_pointer("order:{/id}").parsed::<u64>().bytes_max(4 * 1024);
/// # let _ = key;
/// ```
///
/// Without [`parsed`](JsonPointerKey::parsed) the key is the spelling: `"7"` and `"07"` are two
/// locks. That is only for values whose spelling is the identity, such as a SKU that the handler
/// takes as text too.
///
/// The template is that of [the module](super#templates), with JSON pointers (RFC 6901) in the
/// braces. They say `~0` for a `~` and `~1` for a `/` in a name, and cannot say a brace; `{}` means
/// the whole body. The value is a string, a boolean or a whole number of any size, whose key is its
/// text: `7` and `"7"` make the same.
///
/// The body is read up to [`bytes_max`](JsonPointerKey::bytes_max) before any waiting, and the
/// handler gets it as it was, with its trailers. The time for reading it is not bounded here.
///
/// | the body | the answer |
/// |---|---|
/// | is over the bound, announced or found | 413 `lock_body_too_large` |
/// | breaks off | 400 `lock_body_incomplete` |
/// | is no JSON | 400 `lock_body_invalid` |
/// | has nothing or `null` there (without [`optional`](JsonPointerKey::optional)), or `""` | 400 `lock_key_missing` |
/// | has a member twice on the way there, as the handler might read the other | 400 `lock_key_ambiguous` |
/// | has a list or an object there | 400 `lock_key_rejected` |
/// | has a list, a string, a number or a boolean on the way there, where an object is looked into | 400 `lock_key_rejected` |
/// | has a number there with a fraction or an exponent, or `-0` | 400 `lock_key_not_canonical` |
/// | has there what is no spelling of its type, or not the one | 400 `lock_key_not_canonical` |
///
/// Names are compared letter by letter. A handler that also takes a value by another name, such as
/// a serde alias, needs a key for that: `.optional().or(…)`.
///
/// # Panics
///
/// If the template is none, or has something else than a JSON pointer in its braces.
#[track_caller]
#[must_use]
pub fn json_pointer(template: &str) -> JsonPointerKey {
    let template = Template::new(KIND, template, Pointer::parse);
    JsonPointerKey { template, bytes_max: BODY_BYTES_MAX }
}

/// Takes values inside of the JSON body for the key; made by [`json_pointer`].
#[derive(Debug, Clone)]
pub struct JsonPointerKey {
    template: Template<Pointer>,
    bytes_max: usize,
}

typed_parts!(JsonPointerKey);

impl JsonPointerKey {
    /// The longest body that is read, in bytes (default [`BODY_BYTES_MAX`]); a longer one is
    /// answered with 413.
    #[must_use]
    pub fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Lets a request with an empty body, or that lacks one of the values, run without a lock,
    /// instead of refusing it. The client decides, so the handler must do nothing then that needs
    /// the lock. An empty string is refused all the same, and so is a list in place of an object:
    /// serde reads a struct from either.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.template.optional();
        self
    }

    fn outcome(&self, data: &[u8]) -> KeyOutcome {
        if data.is_empty() {
            return self.template.fill(|_| Ok(Value::Missing));
        }
        let Ok(body) = std::str::from_utf8(data) else {
            return Reject::bad("lock_body_invalid", "the body is not UTF-8").into();
        };
        self.template.fill(|pointer| {
            pointer.find(body).map_err(|error| {
                // Only the place: the text of the error may repeat what the client sent.
                let (line, column) = (error.line(), error.column());
                let detail = format!("the body is no JSON: error at line {line}, column {column}");
                Reject::bad("lock_body_invalid", detail)
            })
        })
    }

    fn too_large(&self) -> Reject {
        Reject::new(StatusCode::PAYLOAD_TOO_LARGE)
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

    fn segments(&self) -> Option<usize> {
        Some(self.template.segments())
    }
}

pin_project! {
    /// Reads the body of one request for a [`JsonPointerKey`].
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
                    Reject::bad("lock_body_incomplete", "the body broke off")
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
