//! The begin of a request: to run it, or to answer it at once.

use std::time::Duration;

use bytes::Bytes;

use super::execution::Execution;

/// The decision about a request: to run it, to replay its outcome, or to refuse it.
#[non_exhaustive]
#[must_use = "an execution that is dropped is given up"]
pub enum Begun {
    /// Run it, and say how it ended.
    Run(Execution),
    /// It has run: answer this.
    Replay(Bytes),
    /// It runs, or is about to, and the time to wait for it is over.
    InFlight {
        /// The time since it was claimed; zero where that is not known.
        age: Duration,
    },
    /// It has run, and its answer was not kept.
    WithoutPayload,
    /// The key was used for something else.
    Mismatch,
    /// It was begun, and left no outcome; [`OnUnknown::Refuse`](super::OnUnknown::Refuse) was asked for.
    Unknown {
        /// The time since it was claimed.
        age: Duration,
    },
}
