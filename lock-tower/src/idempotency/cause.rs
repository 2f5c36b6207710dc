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
    /// The layer's cap on requests that wait, over all scopes.
    Waiters,
    /// The layer's cap on requests that wait for one record.
    WaitersPerKey,
    /// The layer's cap on requests of one scope that wait.
    WaitersPerScope,
    /// The layer's cap on the bytes of requests that wait.
    WaitingBytes,
    /// A request with this key runs, and went on running for as long as this one may wait.
    InFlight,
    /// The key was used for another request.
    Mismatch,
    /// The request ran before, and its response was too large, a stream or broken, or `store_if`
    /// panicked.
    WithoutPayload,
    /// The request may have run before: it began, and nobody knows how it ended.
    Unknown,
    /// The handler lost its lock; it was stopped, or its response was refused by the store.
    Lost,
    /// The handler panicked; a retry runs it again, or is refused under
    /// [`OnUnknown::Refuse`](lock_core::idempotency::OnUnknown::Refuse).
    Panicked,
    /// The transaction of the handler was rolled back, as the database did not commit it: a retry
    /// runs.
    Undone,
    /// The lock service, the record store or, at a commit, the database could not be asked.
    Unavailable,
    /// lock-core's own line of this process is full.
    Overloaded,
    /// The record under this key is no response that this version can read.
    Record,
    /// An option of the layer or the engine is out of bounds.
    Misconfigured,
    /// The lock client, or the runtime, is shut down.
    Closed,
}
