//! Keys of the head of a request: a header, a query parameter, a closure, a constant.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;
use lock_core::{IntoKey, Key};

use super::extractor::{KeyOutcome, KeyReject, extract_from_head};

/// One key for every request, or the first part of a longer one:
/// `fixed("account").and(header("x-account"))`.
///
/// # Panics
///
/// If the text is no [`Key`]: empty, or over 512 bytes.
#[track_caller]
#[must_use]
pub fn fixed(key: impl IntoKey) -> FixedKey {
    match key.into_key() {
        Ok(key) => FixedKey { key },
        Err(error) => panic!("{error}"),
    }
}

/// See [`fixed`].
#[derive(Debug, Clone)]
pub struct FixedKey {
    key: Key,
}

impl FixedKey {
    fn outcome(&self, _: &mut Parts) -> KeyOutcome {
        KeyOutcome::Lock(self.key.clone())
    }
}

extract_from_head!(FixedKey);

/// A key of a header's value, one segment. Missing, empty, repeated or not visible ASCII: 400
/// with the code `lock_key_missing`, `lock_key_ambiguous` or `lock_key_rejected`.
///
/// # Panics
///
/// If the name is no header name.
#[track_caller]
#[must_use]
pub fn header<N>(name: N) -> HeaderKey
where
    N: TryInto<HeaderName>,
    N::Error: fmt::Display,
{
    match name.try_into() {
        Ok(name) => HeaderKey { name, optional: false },
        Err(error) => panic!("bad header for a lock key: {error}"),
    }
}

/// See [`header`].
#[derive(Debug, Clone)]
pub struct HeaderKey {
    name: HeaderName,
    optional: bool,
}

impl HeaderKey {
    /// Lets a request without the header run without a lock, instead of refusing it.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    fn outcome(&self, parts: &mut Parts) -> KeyOutcome {
        let mut values = parts.headers.get_all(&self.name).iter();
        let what = || format!("the header `{}`", self.name);
        let value = values.next().map(http::HeaderValue::to_str);
        if values.next().is_some() {
            return ambiguous(what());
        }
        match value {
            Some(Err(_)) => {
                let detail = format!("{} is not visible ASCII", what());
                KeyReject::bad("lock_key_rejected", detail).into()
            }
            Some(Ok(value)) => one_segment(Some(value), self.optional, what),
            None => one_segment(None, self.optional, what),
        }
    }
}

extract_from_head!(HeaderKey);

/// A key of a query parameter's decoded value, one segment. Missing or empty: 400 with the code
/// `lock_key_missing`; given twice: 400 `lock_key_ambiguous`, as the handler might read the other.
#[must_use]
pub fn query(name: &str) -> QueryKey {
    QueryKey { name: name.into(), optional: false }
}

/// See [`query`].
#[derive(Debug, Clone)]
pub struct QueryKey {
    name: Arc<str>,
    optional: bool,
}

impl QueryKey {
    /// Lets a request without the parameter run without a lock, instead of refusing it.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    fn outcome(&self, parts: &mut Parts) -> KeyOutcome {
        let query = parts.uri.query().unwrap_or_default();
        let pairs = form_urlencoded::parse(query.as_bytes());
        let mut values = pairs.filter(|(name, _)| *name == *self.name).map(|(_, value)| value);
        let what = || format!("the query parameter `{}`", self.name);
        let value: Option<Cow<'_, str>> = values.next();
        if values.next().is_some() {
            return ambiguous(what());
        }
        one_segment(value.as_deref(), self.optional, what)
    }
}

extract_from_head!(QueryKey);

/// A key by a closure over the head of the request. It returns a [`Key`], an `Option` or a
/// `Result` of one, a [`StatusCode`](http::StatusCode) to refuse with, or a [`KeyOutcome`].
///
/// ```
/// use http::{Method, StatusCode};
/// use lock_core::Key;
/// use lock_tower::key::{KeyOutcome, key_fn};
///
/// let per_tenant = key_fn(|head| {
///     if head.method == Method::GET {
///         return KeyOutcome::Skip;
///     }
///     match head.headers.get("x-tenant").and_then(|tenant| tenant.to_str().ok()) {
///         Some(tenant) => Key::from_segments(["tenant", tenant]).into(),
///         None => StatusCode::FORBIDDEN.into(),
///     }
/// });
/// # let _ = per_tenant;
/// ```
#[must_use]
pub fn key_fn<F, O>(derive: F) -> FnKey<F>
where
    F: Fn(&Parts) -> O + Clone + Send + Sync + 'static,
    O: Into<KeyOutcome>,
{
    FnKey { derive }
}

/// See [`key_fn`].
#[derive(Clone)]
pub struct FnKey<F> {
    derive: F,
}

impl<F> FnKey<F> {
    fn outcome<O>(&self, parts: &mut Parts) -> KeyOutcome
    where
        F: Fn(&Parts) -> O,
        O: Into<KeyOutcome>,
    {
        (self.derive)(parts).into()
    }
}

impl<F> fmt::Debug for FnKey<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnKey").finish_non_exhaustive()
    }
}

/// A key of one value that `what` names, where a value that is not there decides by `optional`.
pub(super) fn one_segment(
    value: Option<&str>,
    optional: bool,
    what: impl Fn() -> String,
) -> KeyOutcome {
    match value {
        Some(value) if !value.is_empty() => Key::from_segments([value]).into(),
        _ if optional => KeyOutcome::Skip,
        _ => KeyReject::bad("lock_key_missing", format!("{} is missing or empty", what())).into(),
    }
}

fn ambiguous(what: String) -> KeyOutcome {
    KeyReject::bad("lock_key_ambiguous", format!("{what} is given more than once")).into()
}

impl<B, F, O> super::KeyExtractor<B> for FnKey<F>
where
    F: Fn(&Parts) -> O + Clone + Send + Sync + 'static,
    O: Into<KeyOutcome>,
{
    type Body = B;
    type Future = std::future::Ready<super::Extracted<B>>;

    fn extract(&self, request: http::Request<B>) -> Self::Future {
        let (mut parts, body) = request.into_parts();
        let outcome = self.outcome(&mut parts);
        let request = http::Request::from_parts(parts, body);
        std::future::ready(super::Extracted::new(outcome, request))
    }

    fn pass(&self, request: http::Request<B>) -> http::Request<B> {
        request
    }
}
