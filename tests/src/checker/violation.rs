//! The reasons to refuse a history.

use std::fmt;

/// One thing that must not happen and did. Times are nanoseconds of the history's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// The events do not pair up: the harness is at fault, not the lock.
    Malformed {
        /// The process of the event.
        process: String,
        /// When.
        t_ns: u64,
        /// The mistake in it.
        what: &'static str,
    },
    /// Two grants of one key carry one token.
    TokenTwice {
        /// The key.
        key: String,
        /// The token.
        token: u64,
        /// The processes that got it.
        processes: [String; 2],
    },
    /// A grant was complete before one with a lower token was even asked for.
    OutOfOrder {
        /// The key.
        key: String,
        /// The token of the grant that was first in time.
        first: u64,
        /// The lower token of the grant that came after.
        then: u64,
    },
    /// A write was accepted before one with a lower token began, and that was accepted too.
    WriteWentBack {
        /// The key.
        key: String,
        /// The token that was accepted first.
        first: u64,
        /// The lower token that was accepted after.
        then: u64,
    },
    /// A release or a write carries a token that nobody was granted.
    UnknownToken {
        /// The key.
        key: String,
        /// The token; `None` if the event has none.
        token: Option<u64>,
        /// The process that called.
        process: String,
    },
    /// An acquire answered after its budget and the slack, or never.
    LateAnswer {
        /// The key.
        key: String,
        /// The process that called.
        process: String,
        /// How long it may take.
        budget_ns: u64,
        /// How long it took; `None` if the history ends without an answer.
        took_ns: Option<u64>,
    },
    /// A grant was complete while the holder before it still thought that it held.
    Overlap {
        /// The key.
        key: String,
        /// The token of the holder before.
        held: u64,
        /// The token of the grant.
        granted: u64,
    },
    /// A fault made two holders, and the first was not told for too long.
    ToldLate {
        /// The key.
        key: String,
        /// The token of the holder before.
        held: u64,
        /// The token of the grant.
        granted: u64,
        /// For how long both knew that they hold.
        for_ns: u64,
    },
    /// A holder's time was over by its own clock, and it was not told.
    NotTold {
        /// The key.
        key: String,
        /// The process that held.
        process: String,
        /// Its token.
        token: Option<u64>,
    },
    /// A key was free, somebody waited for it, and nobody was granted it.
    LeftAlone {
        /// The key.
        key: String,
        /// The token of the hold that was given back.
        token: Option<u64>,
        /// The process that waited.
        waiter: String,
        /// For how long.
        for_ns: u64,
    },
    /// An error that does not say what happened.
    WrongAnswer {
        /// The key.
        key: String,
        /// The process that called.
        process: String,
        /// The error that it was told.
        error: String,
        /// After which time.
        took_ns: u64,
    },
}

impl Violation {
    /// The key that it is about.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Violation::Malformed { .. } => None,
            Violation::TokenTwice { key, .. }
            | Violation::OutOfOrder { key, .. }
            | Violation::WriteWentBack { key, .. }
            | Violation::UnknownToken { key, .. }
            | Violation::LateAnswer { key, .. }
            | Violation::Overlap { key, .. }
            | Violation::ToldLate { key, .. }
            | Violation::NotTold { key, .. }
            | Violation::LeftAlone { key, .. }
            | Violation::WrongAnswer { key, .. } => Some(key),
        }
    }

    /// Whether the lock did what it must never do, however busy the machine was.
    #[must_use]
    pub fn is_of_safety(&self) -> bool {
        matches!(
            self,
            Violation::TokenTwice { .. }
                | Violation::OutOfOrder { .. }
                | Violation::WriteWentBack { .. }
                | Violation::UnknownToken { .. }
                | Violation::Overlap { .. }
                | Violation::NotTold { .. }
        )
    }

    /// The tokens of the holds that show it.
    pub(super) fn tokens(&self) -> Vec<u64> {
        match self {
            Violation::TokenTwice { token, .. } => vec![*token],
            Violation::OutOfOrder { first, then, .. }
            | Violation::WriteWentBack { first, then, .. } => vec![*first, *then],
            Violation::Overlap { held, granted, .. }
            | Violation::ToldLate { held, granted, .. } => vec![*held, *granted],
            Violation::UnknownToken { token, .. }
            | Violation::NotTold { token, .. }
            | Violation::LeftAlone { token, .. } => token.iter().copied().collect(),
            Violation::Malformed { .. }
            | Violation::LateAnswer { .. }
            | Violation::WrongAnswer { .. } => Vec::new(),
        }
    }

    /// The process whose call shows it.
    pub(super) fn process(&self) -> Option<&str> {
        match self {
            Violation::Malformed { process, .. }
            | Violation::LateAnswer { process, .. }
            | Violation::WrongAnswer { process, .. }
            | Violation::LeftAlone { waiter: process, .. } => Some(process),
            _ => None,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Malformed { process, t_ns, what } => {
                write!(f, "process {process} at {t_ns} ns: {what}")
            }
            Violation::TokenTwice { key, token, processes: [one, other] } => {
                write!(f, "key {key:?}: token {token} was granted to {one} and to {other}")
            }
            Violation::OutOfOrder { key, first, then } => {
                write!(f, "key {key:?}: token {then} was granted after token {first}")
            }
            Violation::WriteWentBack { key, first, then } => {
                write!(f, "key {key:?}: a write with token {then} was accepted after {first}")
            }
            Violation::UnknownToken { key, token, process } => {
                write!(f, "key {key:?}: {process} used token {token:?}, which nobody was granted")
            }
            Violation::LateAnswer { key, process, budget_ns, took_ns } => write!(
                f,
                "key {key:?}: {process} had a budget of {budget_ns} ns and took {took_ns:?} ns"
            ),
            Violation::Overlap { key, held, granted } => {
                write!(f, "key {key:?}: token {granted} was granted while {held} was held")
            }
            Violation::ToldLate { key, held, granted, for_ns } => write!(
                f,
                "key {key:?}: who held it under token {held} was told {for_ns} ns after \
                 {granted} was granted"
            ),
            Violation::NotTold { key, process, token } => write!(
                f,
                "key {key:?}: the time of {process} was over, and the loss of {token:?} not told"
            ),
            Violation::LeftAlone { key, token, waiter, for_ns } => write!(
                f,
                "key {key:?}: free for {for_ns} ns after {token:?}, while {waiter} waited for it"
            ),
            Violation::WrongAnswer { key, process, error, took_ns } => write!(
                f,
                "key {key:?}: {process} was told after {took_ns} ns, which was not so: {error}"
            ),
        }
    }
}

impl std::error::Error for Violation {}
