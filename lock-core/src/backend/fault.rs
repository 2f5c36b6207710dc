//! Why a store did not answer a verb.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What kind of trouble a [`Fault`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// No answer: the link, a time limit, a server that is loading, full or read-only. It may
    /// pass by itself, and whether the request took effect is not known.
    Transient,
    /// Asking again is of no use: the server refuses and will go on refusing (a password, a
    /// missing right, its version), or what is asked about is out of reach for good.
    Refused,
    /// Something of another kind is stored where the lock would be. Nothing was overwritten.
    ForeignValue,
    /// The store is a member of a quorum, and may not grant now: it is new, or has lost its data,
    /// and is kept away for the longest lease. Nothing was done. It passes by itself.
    Unready,
    /// Granted, and not acknowledged by as many replicas as the terms ask for: see
    /// [`Fault::not_replicated`]. The claim is to be withdrawn.
    NotReplicated,
}

/// Fewer replicas than [`Terms::replicas`](super::Terms) asks for acknowledged a grant in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{acknowledged} of {wanted} replicas acknowledged the grant within {timeout:?}")]
pub struct NotReplicated {
    /// How many were to acknowledge it.
    pub wanted: u32,
    /// How many did.
    pub acknowledged: u32,
    /// How long they had.
    pub timeout: Duration,
}

/// A verb without a definite answer of the store. It never extends a lease and never proves a
/// release.
#[derive(Debug, Clone)]
pub struct Fault {
    kind: FaultKind,
    what: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    is_superseded: bool,
    is_unsent: bool,
}

impl Fault {
    /// A fault with a text for people: no URL, no password.
    pub fn new(kind: FaultKind, what: impl Into<String>) -> Self {
        let (is_superseded, is_unsent) = (false, false);
        Self { kind, what: what.into(), source: None, is_superseded, is_unsent }
    }

    /// A grant that does not count, as too few replicas have it.
    #[must_use]
    pub fn not_replicated(found: NotReplicated) -> Self {
        Self::new(FaultKind::NotReplicated, found.to_string()).with_source(found)
    }

    /// Another server has taken the place of the one that was asked, and is there to be asked.
    #[cfg(any(feature = "redis", test))]
    pub(crate) fn superseded(what: impl Into<String>) -> Self {
        Self { is_superseded: true, ..Self::new(FaultKind::Transient, what) }
    }

    /// Whether another server is there to be asked: no failure of that one, and no reason to leave
    /// it alone for a while.
    pub(crate) fn is_superseded(&self) -> bool {
        self.is_superseded
    }

    /// Marks a fault of a request that has not left: it took no effect, and will take none.
    #[cfg(any(feature = "redis", feature = "test-util"))]
    #[must_use]
    pub(crate) fn unsent(mut self) -> Self {
        self.is_unsent = true;
        self
    }

    /// Whether the request is known not to have left.
    pub(crate) fn is_unsent(&self) -> bool {
        self.is_unsent
    }

    /// What was found of the replicas, if that is the trouble.
    pub(crate) fn found_of_replicas(&self) -> Option<NotReplicated> {
        self.source.as_ref()?.downcast_ref().copied()
    }

    /// Adds the error behind it.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The kind of trouble.
    #[must_use]
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// Whether it may pass by itself.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self.kind, FaultKind::Transient | FaultKind::Unready | FaultKind::NotReplicated)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl StdError for Fault {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}
