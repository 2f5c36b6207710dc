//! The engine and the scope of a call, from what the attribute was given.

use std::sync::Arc;

use crate::error::KeyError;
use crate::idempotency::{Idempotency, Scope};
use crate::key::IntoKey;

/// The value of `client = expr`: an [`Idempotency`], or an `Option`, a reference or an `Arc` of
/// one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an idempotency client",
    label = "expected `Idempotency`, or an `Option`, a reference or an `Arc` of one"
)]
pub trait EngineSource {
    /// The engine, if there is one.
    fn client(&self) -> Option<Idempotency>;
}

impl EngineSource for Idempotency {
    fn client(&self) -> Option<Idempotency> {
        Some(self.clone())
    }
}

impl<C: EngineSource + ?Sized> EngineSource for &C {
    fn client(&self) -> Option<Idempotency> {
        (**self).client()
    }
}

impl<C: EngineSource + ?Sized> EngineSource for Arc<C> {
    fn client(&self) -> Option<Idempotency> {
        (**self).client()
    }
}

impl<C: EngineSource> EngineSource for Option<C> {
    fn client(&self) -> Option<Idempotency> {
        self.as_ref().and_then(EngineSource::client)
    }
}

/// The value of `scope = expr`: a [`Scope`], or a value that makes a key.
pub trait IntoScope {
    /// Makes the scope.
    ///
    /// # Errors
    /// As the value's own [`IntoKey`].
    fn into_scope(self) -> Result<Scope, KeyError>;
}

impl IntoScope for Scope {
    fn into_scope(self) -> Result<Scope, KeyError> {
        Ok(self)
    }
}

impl<K: IntoKey> IntoScope for K {
    fn into_scope(self) -> Result<Scope, KeyError> {
        self.into_key().map(|key| Scope::of(key.as_str().to_owned()))
    }
}

/// `scope = ..`.
///
/// # Errors
/// As the value's own [`IntoKey`].
pub fn scope<S: IntoScope>(scope: S) -> Result<Scope, KeyError> {
    scope.into_scope()
}
