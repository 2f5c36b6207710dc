//! The leader of an election.

use std::sync::Arc;

use crate::token::FencingToken;

/// The leader of an election, as the store saw it when asked. By the time that this is read it may
/// be of the past: what a leader may still do, its token decides.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The value that it published when it stood for election.
    pub value: Arc<str>,
    /// The fencing token of its term. `None` for a client of another library, and where the store
    /// does not tell it.
    pub token: Option<FencingToken>,
    /// The id of its claim, or what a client of another library calls itself, escaped.
    pub claim: String,
}

impl Leader {
    /// A leader as a backend sees it.
    #[must_use]
    pub fn new(value: impl Into<Arc<str>>, token: Option<FencingToken>, claim: String) -> Self {
        Self { value: value.into(), token, claim }
    }
}
