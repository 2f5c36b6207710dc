//! What a store knows of a key.

use std::time::Duration;

use crate::token::FencingToken;

/// Who holds a key and who waits, as the store saw it when asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Inspection {
    /// The holder, if there is one.
    pub holder: Option<Holder>,
    /// Waiting claims in their order, one per process and key; a process may have many waiters
    /// behind one claim.
    pub waiters: Vec<Waiter>,
}

impl Inspection {
    /// What a backend found.
    #[must_use]
    pub fn new(holder: Option<Holder>, waiters: Vec<Waiter>) -> Self {
        Self { holder, waiters }
    }
}

/// Who holds a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The id of its claim (at a quorum the first 24 digits of it), or the value a client of another
    /// library put there, escaped.
    pub claim: String,
    /// The last token reserved for it; `None` for a client of another library.
    pub token: Option<FencingToken>,
    /// How long its lease lasts without a renewal; `None` for a lock without an end, and where
    /// only the holder knows.
    pub lease_left: Option<Duration>,
    /// What it says of itself, escaped: host, process and name. Only ZooKeeper has a place for it.
    pub about: Option<String>,
}

impl Holder {
    /// A holder as a backend sees it.
    #[must_use]
    pub fn new(claim: String, token: Option<FencingToken>, lease_left: Option<Duration>) -> Self {
        Self { claim, token, lease_left, about: None }
    }

    /// Adds what it says of itself.
    #[must_use]
    pub fn with_about(mut self, about: impl Into<String>) -> Self {
        self.about = Some(about.into());
        self
    }
}

/// Who waits for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The id of its claim, or what a client of another library calls itself, escaped.
    pub claim: String,
    /// What it says of itself, escaped: host, process and name. Only ZooKeeper has a place for it.
    pub about: Option<String>,
}

impl Waiter {
    /// A waiter as a backend sees it.
    #[must_use]
    pub fn new(claim: String) -> Self {
        Self { claim, about: None }
    }

    /// Adds what it says of itself.
    #[must_use]
    pub fn with_about(mut self, about: impl Into<String>) -> Self {
        self.about = Some(about.into());
        self
    }
}
