//! The kinds of claims that a cell opens at the store.

use std::sync::Arc;

use crate::backend::{ClaimId, DynBackend, DynClaim, Terms};
use crate::key::Key;

/// The kind of claims that a cell opens.
#[derive(Debug, Clone)]
pub(in crate::engine) enum Opens {
    /// One that all who want the key here stand behind.
    Lock,
    /// That of one candidate in an election, which publishes this value.
    Candidate(Arc<str>),
    /// That of one who takes the key from all who hold it, here too.
    Force,
}

impl Opens {
    /// Whether the cell is that of one acquire, and of nobody else.
    pub(super) fn is_of_one(&self) -> bool {
        !matches!(self, Self::Lock)
    }

    pub(super) fn claim(
        &self,
        store: &dyn DynBackend,
        key: &Key,
        id: ClaimId,
        terms: Terms,
    ) -> Box<dyn DynClaim> {
        match self {
            Self::Lock => store.claim(key, id, terms),
            Self::Candidate(value) => store.candidate(key, id, terms, value),
            Self::Force => store.forced(key, id, terms),
        }
    }
}
