//! What a history can be refused for.

use std::fmt;

/// One thing that must not happen and did. Times are nanoseconds of the history's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// The events do not pair up: the harness is at fault, not the lock.
    Malformed {
        /// Whose event.
        process: String,
        /// When.
        t_ns: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Two grants of one key carry one token.
    TokenTwice {
        /// The key.
        key: String,
        /// The token.
        token: u64,
        /// Who got it.
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
        /// Whose call.
        process: String,
    },
    /// An acquire answered after its budget and the slack, or never.
    LateAnswer {
        /// The key.
        key: String,
        /// Whose call.
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
        }
    }
}

impl std::error::Error for Violation {}
