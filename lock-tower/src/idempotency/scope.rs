//! The owner of a key.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use lock_core::idempotency::Scope;

use crate::answer::Reject;

/// Stands in an `IdempotencyLayer` for a scope that was not given yet, and makes no service; see
/// [`IdempotencyLayer::scope`](super::IdempotencyLayer::scope).
#[derive(Debug, Clone, Copy)]
pub struct NoScope;

/// Says of each request whose key it has; made by
/// [`IdempotencyLayer::scope`](super::IdempotencyLayer::scope).
#[derive(Clone)]
pub struct HasScope {
    of: ScopeOf,
}

type ScopeOf = Arc<dyn Fn(&Parts) -> Result<Scope, Reject> + Send + Sync>;

impl HasScope {
    pub(super) fn new<F, O>(scope: F) -> Self
    where
        F: Fn(&Parts) -> O + Send + Sync + 'static,
        O: Into<ScopeOutcome>,
    {
        Self { of: Arc::new(move |head| scope(head).into().0) }
    }

    pub(super) fn of(&self, head: &Parts) -> Result<Scope, Reject> {
        (self.of)(head)
    }
}

impl fmt::Debug for HasScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HasScope").finish_non_exhaustive()
    }
}

/// The answer of [`IdempotencyLayer::scope`](super::IdempotencyLayer::scope)'s closure about a
/// request: a [`Scope`], or a refusal.
#[derive(Debug)]
pub struct ScopeOutcome(Result<Scope, Reject>);

impl From<Scope> for ScopeOutcome {
    fn from(scope: Scope) -> Self {
        Self(Ok(scope))
    }
}

impl<E: Into<Reject>> From<Result<Scope, E>> for ScopeOutcome {
    fn from(scope: Result<Scope, E>) -> Self {
        Self(scope.map_err(Into::into))
    }
}
