//! Keys of query parameters.

use http::request::Parts;

use super::extractor::{KeyOutcome, extract_from_head};
use super::template::{Kind, Template, Value, any_name};
use super::typed::typed_parts;

const KIND: Kind = Kind { call: "query", what: "the query parameter" };

/// A key of query parameters: `query("order:{id}").parsed::<u64>()`.
///
/// ```
/// use lock_tower::key::query;
///
/// // `?id=7` is `order:7`; `?id=07` and `?id=%2B7` are answered with 400.
/// let key = query("order:{id}").parsed::<u64>();
/// # let _ = key;
/// ```
///
/// Without [`parsed`](QueryKey::parsed) the key is the spelling: `7` and `07` are two locks. That
/// is only for values whose spelling is the identity, such as a SKU that the handler takes as text
/// too.
///
/// The template is that of [the module](super#templates), with the names of parameters in the
/// braces. Names and values are decoded once, as axum's `Query` does it: `+` is a blank, and
/// `i%64=%37` is `id=7`.
///
/// | the parameter | the answer |
/// |---|---|
/// | is missing (without [`optional`](QueryKey::optional)) or empty | 400 `lock_key_missing` |
/// | is given twice, as the handler might read the other | 400 `lock_key_ambiguous` |
/// | is not UTF-8, or holds U+FFFD, which stands for bytes that were not | 400 `lock_key_rejected` |
/// | is no spelling of its type, or not the one | 400 `lock_key_not_canonical` |
///
/// # Panics
///
/// If the template is none.
#[track_caller]
#[must_use]
pub fn query(template: &str) -> QueryKey {
    QueryKey { template: Template::new(KIND, template, any_name) }
}

/// Takes the values of query parameters for the key; made by [`query`].
#[derive(Debug, Clone)]
pub struct QueryKey {
    template: Template<String>,
}

impl QueryKey {
    /// Lets a request that lacks one of the parameters run without a lock, instead of refusing
    /// it. The client decides, so the handler must do nothing then that needs the lock. An empty
    /// parameter is refused all the same.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.template.optional();
        self
    }

    fn outcome(&self, parts: &mut Parts) -> KeyOutcome {
        let query = parts.uri.query().unwrap_or_default().as_bytes();
        self.template.fill(|name| {
            let pairs = form_urlencoded::parse(query);
            let mut values = pairs.filter(|(other, _)| other == name).map(|(_, value)| value);
            Ok(match (values.next(), values.next()) {
                (None, _) => Value::Missing,
                (Some(_), Some(_)) => Value::Several,
                // All bytes that are no text decode to this, so they would all be one key.
                (Some(value), None) if value.contains('\u{FFFD}') => {
                    Value::Rejected("is not UTF-8")
                }
                (Some(value), None) => Value::One(value),
            })
        })
    }
}

typed_parts!(QueryKey);
extract_from_head!(QueryKey, |key| Some(key.template.segments()));
