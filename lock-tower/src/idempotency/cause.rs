//! Why a request is answered by the layer.

/// Why the handler did not run, or why its response was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The request has no good idempotency key.
    Key,
    /// The scope closure refused the request.
    Scope,
    /// The body of the request is too large, took too long, or broke off.
    Body,
    /// The layer's cap on requests that wait.
    Waiters,
    /// A request with this key runs, and went on running for as long as this one may wait.
    InFlight,
    /// The key was used for another request.
    Mismatch,
    /// The request ran before, and its response was too large or a stream.
    Tombstone,
    /// The request may have run before: it began, and nobody knows how it ended.
    Unknown,
    /// The handler lost its lock; it was stopped, or its response was refused by the store.
    Lost,
    /// The handler panicked; a retry runs it again.
    Panicked,
    /// The lock service or the record store could not be asked.
    Unavailable,
    /// lock-core's own line of this process is full.
    Overloaded,
    /// What is stored under this key is no response that this version can read.
    Record,
    /// An option of the layer or the engine is out of bounds.
    Misconfigured,
    /// The lock client, or the runtime, is shut down.
    Closed,
}
