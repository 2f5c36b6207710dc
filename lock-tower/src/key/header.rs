//! Keys of headers.

use http::HeaderName;
use http::request::Parts;

use super::extractor::{KeyOutcome, extract_from_head};
use super::template::{Kind, Template, Value};
use super::typed::typed_parts;

const KIND: Kind = Kind { call: "header", what: "the header" };

/// A key of headers: `header("order:{x-order}").parsed::<u64>()`.
///
/// ```
/// use lock_tower::key::header;
///
/// // `x-order: 7` is `order:7`; `07` and `+7` are answered with 400.
/// let one = header("order:{x-order}").parsed::<u64>();
/// // A tenant by name, and its orders by number.
/// let both = header("order:{x-tenant}:{x-order}").part::<u64>("x-order");
/// # let _ = (one, both);
/// ```
///
/// Without [`parsed`](HeaderKey::parsed) the key is the spelling: `7` and `07` are two locks. That
/// is only for values whose spelling is the identity, such as a SKU that the handler takes as text
/// too.
///
/// The template is that of [the module](super#templates), with the names of headers in the braces.
/// Its fixed text is what keeps two routes that read one header apart.
///
/// | the header | the answer |
/// |---|---|
/// | is missing (without [`optional`](HeaderKey::optional)) or empty | 400 `lock_key_missing` |
/// | stands there more than once | 400 `lock_key_ambiguous` |
/// | is not visible ASCII, or begins or ends with a blank, which HTTP/2 lets through | 400 `lock_key_rejected` |
/// | is no spelling of its type, or not the one | 400 `lock_key_not_canonical` |
///
/// A proxy may join the lines of a header with commas: `7, 8` is a text like any other, and no
/// number.
///
/// # Panics
///
/// If the template is none, or has a name that is no header's.
#[track_caller]
#[must_use]
pub fn header(template: &str) -> HeaderKey {
    let named = |name: &str| {
        HeaderName::from_bytes(name.as_bytes()).map_err(|error| format!("`{name}`: {error}"))
    };
    HeaderKey { template: Template::new(KIND, template, named) }
}

/// Takes the values of a request's headers for its key; made by [`header`].
#[derive(Debug, Clone)]
pub struct HeaderKey {
    template: Template<HeaderName>,
}

impl HeaderKey {
    /// Lets a request that lacks one of the headers run without a lock, instead of refusing it.
    /// The client decides, so the handler must do nothing then that needs the lock. An empty
    /// header is refused all the same.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.template.optional();
        self
    }

    fn outcome(&self, parts: &mut Parts) -> KeyOutcome {
        self.template.fill(|name| {
            let mut lines = parts.headers.get_all(name).iter();
            Ok(match (lines.next(), lines.next()) {
                (None, _) => Value::Missing,
                (Some(_), Some(_)) => Value::Several,
                (Some(line), None) => match line.to_str() {
                    Err(_) => Value::Rejected("is not visible ASCII"),
                    Ok(text) if text.trim_ascii() != text => {
                        Value::Rejected("begins or ends with a blank")
                    }
                    Ok(text) => Value::One(text.into()),
                },
            })
        })
    }
}

typed_parts!(HeaderKey);
extract_from_head!(HeaderKey, |key| Some(key.template.segments()));
