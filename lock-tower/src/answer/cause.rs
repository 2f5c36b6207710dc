//! Why a lock layer answers a request.

/// Why the handler did not run, or not to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Others held the lock until the budget was used up.
    Timeout,
    /// The line of the key takes longer than the budget, see
    /// [`admission`](crate::LockLayer::admission), or it is full by the bound of the lock client.
    Overloaded,
    /// The layer's cap on waiters of one key.
    WaitersPerKey,
    /// The layer's cap on waiters of all keys.
    Waiters,
    /// The store could not be asked, or too few replicas have acknowledged the grant.
    Unavailable,
    /// The lock was lost while the handler ran; the handler was stopped.
    Lost,
    /// The extractor refused the request, or its key is out of bounds.
    Key,
    /// An option of the layer is out of bounds, or the handler upgrades its connection without
    /// [`UpgradeLock`](crate::UpgradeLock).
    Misconfigured,
    /// The lock client is shut down.
    Closed,
}
