//! Keys by a closure and constant ones.

use std::fmt;

use http::request::Parts;
use lock_core::Key;
use lock_core::key::IntoKey;

use super::extractor::{KeyOutcome, extract_from_head};

/// One key for every request, or the first part of a longer one:
/// `fixed("shop-1").and(path("order:{id}").parsed::<u64>())`.
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

/// Gives every request the same key; made by [`fixed`].
#[derive(Debug, Clone)]
pub struct FixedKey {
    key: Key,
}

impl FixedKey {
    fn outcome(&self, _: &mut Parts) -> KeyOutcome {
        KeyOutcome::Lock(self.key.clone())
    }
}

extract_from_head!(FixedKey, |key| Some(key.key.as_str().split(':').count()));

/// A key by a closure over the head of the request. It returns a [`Key`], an `Option` or a
/// `Result` of one, a [`StatusCode`](http::StatusCode) to refuse with, or a [`KeyOutcome`].
///
/// Parse what has more than one spelling, such as a number, and make the key of the value. Begin
/// with fixed text that says what the key names, as the templates of the other extractors do.
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

/// Asks a closure for the key of each request; made by [`key_fn`].
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
