//! The scope of a key: those who share it.

use std::borrow::Cow;

/// The scope of a key: those who share it. Two tenants that send the same key mean two things, and
/// none may be shown the other's answer. So a scope is always said. For keys that all share, it is
/// [`Global`](Self::Global).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// The name of a tenant, a user, an endpoint; 1 to 1,024 bytes.
    Of(Cow<'static, str>),
    /// Shared by all.
    Global,
}

impl Scope {
    /// The scope of a tenant, a user, an endpoint. An empty or oversized one is reported by
    /// [`Idempotency::begin`](crate::idempotency::Idempotency::begin).
    pub fn of(name: impl Into<Cow<'static, str>>) -> Self {
        Self::Of(name.into())
    }
}
