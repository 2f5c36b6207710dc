//! The view that a store has of a key.

use std::time::Duration;

use crate::mode::Mode;
use crate::token::FencingToken;

/// The holders and the waiters of a key, as the store saw them when asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Inspection {
    /// Those who hold it, none if it is free: one, or several of one mode that is not exclusive.
    /// Readers of one process are one.
    pub holders: Vec<Holder>,
    /// Waiting claims in their order, one per process and key; a process may have many waiters
    /// behind one claim. For permits a process has a claim for each that it wants at the same time.
    pub waiters: Vec<Waiter>,
    /// At a quorum, each of its members, in the order of its list; empty elsewhere.
    pub members: Vec<MemberHealth>,
}

impl Inspection {
    /// An inspection with the findings of a backend.
    #[must_use]
    pub fn new(holders: impl IntoIterator<Item = Holder>, waiters: Vec<Waiter>) -> Self {
        Self { holders: holders.into_iter().collect(), waiters, members: Vec::new() }
    }

    /// The first holder, if there is one.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        self.holders.first()
    }

    /// Adds how the members of a quorum are.
    #[must_use]
    pub fn with_members(mut self, members: Vec<MemberHealth>) -> Self {
        self.members = members;
        self
    }
}

/// How one member of a quorum is, as the client sees it that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberHealth {
    /// Its name (`host:port`); its place from 0 where the quorum is not managed.
    pub name: String,
    /// Its state: whether it may be asked for locks.
    pub state: MemberState,
    /// Whether it has the key for the holder.
    pub holds: bool,
    /// How long the lease lasts there without a renewal.
    pub lease_left: Option<Duration>,
    /// How long ago it answered this client last; `None` if it never did, or nobody notes it.
    pub answered_ago: Option<Duration>,
}

/// The state of a member of a quorum: whether it may be asked for locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberState {
    /// It may.
    Ready,
    /// It does not answer.
    Unreachable,
    /// It is probed just now.
    Probing,
    /// It is new, or may have lost data, and is kept away for so long.
    Quarantined {
        /// How long, by the client's clock.
        left: Duration,
    },
    /// Its quarantine is over, and it waits for a majority of the others to tell how far the tokens
    /// are.
    Unrepaired,
    /// It has no enrolment of this incarnation, and too few others answer to give it one.
    Unenrolled,
    /// It is a member of another quorum: this client is served nothing.
    AnotherQuorum,
}

impl MemberState {
    /// One word for it, for logs and pages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Unreachable => "unreachable",
            Self::Probing => "probing",
            Self::Quarantined { .. } => "quarantined",
            Self::Unrepaired => "unrepaired",
            Self::Unenrolled => "unenrolled",
            Self::AnotherQuorum => "another_quorum",
        }
    }
}

/// A holder of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// How it holds the key; as a client of another library seems to.
    pub mode: Mode,
    /// The id of its claim (at a quorum the first 24 digits of it), or the value a client of another
    /// library put there, escaped.
    pub claim: String,
    /// The last token reserved for it. `None` for a client of another library, and where the store
    /// keeps no token for each key: Redis, unless it is a member of a quorum. At ZooKeeper that of a
    /// writer that became a reader may be greater than its guard's.
    pub token: Option<FencingToken>,
    /// How long its lease lasts without a renewal; `None` for a lock without an end, and where
    /// only the holder knows.
    pub lease_left: Option<Duration>,
    /// The time that its claim has held the key, by the clock of the store. Guards of its process may have
    /// come and gone meanwhile. The memory knows it, and Redis where [`about`](Self::about) has a name.
    /// Other stores do not.
    pub held_for: Option<Duration>,
    /// Its word about itself, escaped: the label of its client or its host and process, and the
    /// name of the acquire. Redis has that name only where the key is held for long, and tells of a
    /// client no longer than it is connected.
    pub about: Option<String>,
}

impl Holder {
    /// A holder as a backend sees it, that holds the key alone.
    #[must_use]
    pub fn new(claim: String, token: Option<FencingToken>, lease_left: Option<Duration>) -> Self {
        Self { mode: Mode::Exclusive, claim, token, lease_left, held_for: None, about: None }
    }

    /// Adds how long it has held the key.
    #[must_use]
    pub fn with_held_for(mut self, time: Duration) -> Self {
        self.held_for = Some(time);
        self
    }

    /// Replaces how it holds the key.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Adds what it says of itself.
    #[must_use]
    pub fn with_about(mut self, about: impl Into<String>) -> Self {
        self.about = Some(about.into());
        self
    }
}

/// A waiter for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// How it wants to hold the key.
    pub mode: Mode,
    /// The id of its claim, or what a client of another library calls itself, escaped.
    pub claim: String,
    /// Its word about itself, as [`Holder::about`].
    pub about: Option<String>,
}

impl Waiter {
    /// A waiter as a backend sees it, that wants the key alone.
    #[must_use]
    pub fn new(claim: String) -> Self {
        Self { mode: Mode::Exclusive, claim, about: None }
    }

    /// Replaces how it wants to hold the key.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Adds what it says of itself.
    #[must_use]
    pub fn with_about(mut self, about: impl Into<String>) -> Self {
        self.about = Some(about.into());
        self
    }
}
