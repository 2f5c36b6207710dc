//! Whose key it is.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use lock_core::idempotency::Scope;

/// The layer has no scope yet; see [`IdempotencyLayer::scope`](super::IdempotencyLayer::scope).
#[derive(Debug, Clone, Copy)]
pub struct NoScope;

/// The layer knows whose keys it serves.
#[derive(Clone)]
pub struct HasScope {
    of: ScopeOf,
}

type ScopeOf = Arc<dyn Fn(&Parts) -> Result<Scope, ScopeReject> + Send + Sync>;

impl HasScope {
    pub(super) fn new<F, O>(scope: F) -> Self
    where
        F: Fn(&Parts) -> O + Send + Sync + 'static,
        O: Into<ScopeOutcome>,
    {
        Self { of: Arc::new(move |head| scope(head).into().0) }
    }

    pub(super) fn of(&self, head: &Parts) -> Result<Scope, ScopeReject> {
        (self.of)(head)
    }
}

impl fmt::Debug for HasScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HasScope").finish_non_exhaustive()
    }
}

/// What a closure says about a request: a [`Scope`], or a refusal.
#[derive(Debug)]
pub struct ScopeOutcome(Result<Scope, ScopeReject>);

impl From<Scope> for ScopeOutcome {
    fn from(scope: Scope) -> Self {
        Self(Ok(scope))
    }
}

impl<E: Into<ScopeReject>> From<Result<Scope, E>> for ScopeOutcome {
    fn from(scope: Result<Scope, E>) -> Self {
        Self(scope.map_err(Into::into))
    }
}

/// Why a request has no scope, as the client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeReject {
    status: StatusCode,
    code: &'static str,
    detail: Cow<'static, str>,
}

impl ScopeReject {
    /// A refusal with this status and the code `idempotency_scope_rejected`.
    #[must_use]
    pub fn new(status: StatusCode) -> Self {
        let detail = Cow::Borrowed("nobody is known whose idempotency key this could be");
        Self { status, code: "idempotency_scope_rejected", detail }
    }

    /// Replaces the stable code that programs read.
    #[must_use]
    pub fn with_code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// Replaces the sentence that people read. It goes to the client.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = detail.into();
        self
    }

    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The sentence for people.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl From<StatusCode> for ScopeReject {
    fn from(status: StatusCode) -> Self {
        Self::new(status)
    }
}
