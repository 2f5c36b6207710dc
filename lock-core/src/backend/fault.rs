//! The reasons why a store did not answer a verb.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The kind of trouble that a [`Fault`] is. A backend chooses it, and the engine goes by it alone:
/// it reads no texts and no sources.
///
/// | kind | after an attempt | after a renewal | after a withdrawal |
/// |---|---|---|---|
/// | [`Transient`] | asks again after a pause, 20 ms at first and 1 s at most; whoever does not wait is told | asks again at ninths of the lease, until it ends | asks again in the background, until the lease ends; a release is told after 2 s that its outcome is not known |
/// | [`Superseded`] | asks again at once, and as `Transient` the second time in a row; whoever does not wait is told | asks again at once, and as `Transient` the second time in a row; nothing is handed on in this process before the answer | as `Transient` |
/// | [`Unready`] | all who wait are told, and may try again | as `Transient` | as `Transient` |
/// | [`NotReplicated`] | withdraws the claim; those who asked for so many are told, and may try again | as `Transient` | as `Transient` |
/// | [`OtherLimit`] | those who asked for this limit are told, and should not try again | as `Transient` | as `Refused` |
/// | [`Refused`], [`ForeignValue`] | all who wait are told, and should not try again | as `Transient` | a release is told at once that its outcome is not known, and nothing is tried again |
///
/// "Told" is [`AcquireError::Unavailable`](crate::AcquireError::Unavailable), or
/// [`NotReplicated`](crate::AcquireError::NotReplicated); whether to try again is
/// [`is_retryable`](crate::AcquireError::is_retryable) there, and
/// [`retries`](crate::LockOptions::retries) do.
///
/// A withdrawal that is tried again may find that the claim holds nothing. Then an earlier try took
/// effect, and the lock was released, unless
///
/// - each earlier try is marked [`unsent`](Fault::unsent): the lock had been lost before, and the
///   release says so;
/// - one of them was `Superseded`, or the answer is
///   [`Withdrawal::Elsewhere`](super::Withdrawal::Elsewhere): the outcome is not known, as the last
///   server may have gone before it told this one of the grant.
///
/// [`Transient`]: Self::Transient
/// [`Superseded`]: Self::Superseded
/// [`Unready`]: Self::Unready
/// [`NotReplicated`]: Self::NotReplicated
/// [`OtherLimit`]: Self::OtherLimit
/// [`Refused`]: Self::Refused
/// [`ForeignValue`]: Self::ForeignValue
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// No answer: the link, a time limit, a server that is loading, full or read-only. It may
    /// pass by itself, and whether the request took effect is not known. The kind to choose when
    /// in doubt.
    Transient,
    /// Another server has taken the place of the one that was asked, so its answer does not count,
    /// and the new one is known and can be asked. A store that has yet to find it says
    /// [`Transient`](Self::Transient).
    Superseded,
    /// Asking again is of no use. The server refuses and will go on refusing (a password, a missing
    /// right, its version), or the thing that is asked about is out of reach for good.
    Refused,
    /// Something of another kind is stored where the lock would be. Nothing was overwritten.
    ForeignValue,
    /// The store is a member of a quorum, and may not grant now. It is new, or has lost its data,
    /// and is kept away for the longest lease. Nothing was done. The fault passes by itself.
    Unready,
    /// Granted, and not acknowledged by as many replicas as [`Terms::replicas`](super::Terms) asks
    /// for. The claim is withdrawn. [`Fault::not_replicated`] makes it.
    NotReplicated(NotReplicated),
    /// Permits of the key are in use, or waited for, under this other limit. Nothing was done.
    /// [`Fault::other_limit`] makes it.
    OtherLimit(u32),
}

/// Fewer replicas than [`Terms::replicas`](super::Terms) asks for acknowledged a grant in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{acknowledged} of {wanted} replicas acknowledged the grant within {timeout:?}")]
pub struct NotReplicated {
    /// The number of replicas that were to acknowledge it.
    pub wanted: u32,
    /// The number of those that did.
    pub acknowledged: u32,
    /// The time that they had.
    pub timeout: Duration,
}

/// A verb without a definite answer of the store. It never extends a lease and never proves a
/// release.
///
/// ```
/// use lock_core::backend::{Fault, FaultKind};
///
/// # fn connect() -> Result<(), std::io::Error> { Err(std::io::ErrorKind::ConnectionRefused.into()) }
/// // There was no connection to send the request over: it can have had no effect.
/// let fault = connect().map_err(|error| {
///     Fault::new(FaultKind::Transient, "the store cannot be reached").unsent().with_source(error)
/// });
/// # let fault = fault.unwrap_err();
/// assert!(fault.is_transient() && fault.is_unsent());
/// ```
#[derive(Debug, Clone)]
pub struct Fault {
    kind: FaultKind,
    what: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    is_unsent: bool,
}

impl Fault {
    /// A fault with a text for people: no URL, no password.
    pub fn new(kind: FaultKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), source: None, is_unsent: false }
    }

    /// A grant that does not count, as too few replicas have it.
    #[must_use]
    pub fn not_replicated(found: NotReplicated) -> Self {
        Self::new(FaultKind::NotReplicated(found), found.to_string())
    }

    /// Permits of the key are in use under another limit than the one that was asked for.
    #[must_use]
    pub fn other_limit(in_use: u32) -> Self {
        Self::new(FaultKind::OtherLimit(in_use), format!("{in_use} permits of the key are in use"))
    }

    /// Marks a fault of a request that has not left: it took no effect, and will take none. Only a
    /// withdrawal needs the mark, to tell a release whose answer was lost from one that never was.
    /// Leave it off where any byte may have been sent.
    #[must_use]
    pub fn unsent(mut self) -> Self {
        self.is_unsent = true;
        self
    }

    /// Takes that mark off, of a request behind another one of the same verb, which may have taken
    /// effect.
    #[must_use]
    pub fn in_doubt(mut self) -> Self {
        self.is_unsent = false;
        self
    }

    /// Makes it [`Transient`](FaultKind::Transient): what is refused just now was had before, and
    /// may be had again.
    #[must_use]
    pub fn passing(mut self) -> Self {
        self.kind = FaultKind::Transient;
        self
    }

    /// Adds the error behind it.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The error behind it, for who looks for one of a known type. [`source`](StdError::source)
    /// leaves out what the text of the fault has said already.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }

    /// The kind of trouble.
    #[must_use]
    pub fn kind(&self) -> FaultKind {
        self.kind
    }

    /// Whether it may pass by itself: all kinds but [`Refused`](FaultKind::Refused),
    /// [`ForeignValue`](FaultKind::ForeignValue) and [`OtherLimit`](FaultKind::OtherLimit).
    #[must_use]
    pub fn is_transient(&self) -> bool {
        let is_final = |kind| {
            matches!(kind, FaultKind::Refused | FaultKind::ForeignValue | FaultKind::OtherLimit(_))
        };
        !is_final(self.kind)
    }

    /// Whether another server is there to be asked: no failure of that one, and no reason to leave
    /// it alone for a while.
    #[must_use]
    pub fn is_superseded(&self) -> bool {
        self.kind == FaultKind::Superseded
    }

    /// Whether the request is known not to have left, see [`unsent`](Self::unsent).
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        self.is_unsent
    }

    /// The finding about the replicas, if they are the trouble.
    #[must_use]
    pub fn found_of_replicas(&self) -> Option<NotReplicated> {
        match self.kind {
            FaultKind::NotReplicated(found) => Some(found),
            _ => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl StdError for Fault {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        unsaid(&self.what, self.cause())
    }
}

/// The first of a chain of errors that says what `text` has not said.
fn unsaid<'a>(
    text: &str,
    mut next: Option<&'a (dyn StdError + 'static)>,
) -> Option<&'a (dyn StdError + 'static)> {
    while let Some(error) = next {
        if !text.contains(&error.to_string()) {
            return Some(error);
        }
        next = error.source();
    }
    None
}
