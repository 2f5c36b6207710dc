//! The answers and events of the Java program.

use serde::Deserialize;

/// The lock of Curator's that a handle takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recipe {
    /// `InterProcessMutex`.
    Mutex,
    /// The read lock of an `InterProcessReadWriteLock`.
    Read,
    /// The write lock of the same.
    Write,
    /// One of so many permits of an `InterProcessSemaphoreV2`.
    Permits(u32),
    /// The lead of a `LeaderLatch`, as the candidate with this id.
    Latch(&'static str),
}

impl std::fmt::Display for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Recipe::Mutex => f.write_str("mutex"),
            Recipe::Read => f.write_str("read"),
            Recipe::Write => f.write_str("write"),
            Recipe::Permits(limit) => write!(f, "permits={limit}"),
            Recipe::Latch(id) => write!(f, "latch={id}"),
        }
    }
}

/// A lock that Curator granted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The lock node's path, as `/orders/_c_<uuid>-lock-0000000003`. Of a permit the node's name;
    /// empty for a read-write lock and for a latch, which do not tell.
    pub node: String,
    /// When Curator's `acquire` returned: nanoseconds of `CLOCK_MONOTONIC`.
    pub t_ns: u64,
}

/// A command that Curator refused or could not carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The simple name of the Java exception, as `ConnectionLossException`.
    pub error: String,
    /// The exception's text.
    pub message: String,
    /// When it failed: nanoseconds of `CLOCK_MONOTONIC`.
    pub t_ns: u64,
}

/// An event that nobody asked for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The connection came to another state.
    State {
        /// The new state.
        state: State,
        /// When Curator's listener was told: nanoseconds of `CLOCK_MONOTONIC`.
        t_ns: u64,
    },
    /// Somebody asked for the lock of a handle that was made revocable.
    Revoked {
        /// The holder.
        handle: String,
        /// When Curator's listener was told: nanoseconds of `CLOCK_MONOTONIC`.
        t_ns: u64,
    },
}

/// A state of Curator's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum State {
    /// The first session began.
    Connected,
    /// The connection is gone; the session may live.
    Suspended,
    /// A connection is there again.
    Reconnected,
    /// Curator gave the session up.
    Lost,
    /// Connected to a server without a quorum.
    ReadOnly,
}

/// One line of the program.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Line {
    Event(Event),
    Answer(Answer),
}

/// An answer as it comes; each command has its own fields.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    pub(super) id: u64,
    pub(super) ok: bool,
    pub(super) t_ns: u64,
    pub(super) node: Option<String>,
    pub(super) nodes: Vec<String>,
    pub(super) held: bool,
    pub(super) session: i64,
    pub(super) session_ms: u64,
    pub(super) error: String,
    pub(super) message: String,
}

impl Answer {
    pub(super) fn outcome(self) -> Result<Self, Failure> {
        let Answer { ok, t_ns, .. } = self;
        match ok {
            true => Ok(self),
            false => Err(Failure { error: self.error, message: self.message, t_ns }),
        }
    }

    pub(super) fn grant(self) -> Option<Grant> {
        self.node.map(|node| Grant { node, t_ns: self.t_ns })
    }
}
