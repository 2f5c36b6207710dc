//! What a function returns when it did not have its lock.

use crate::{AcquireError, LostError, UnavailableError};

/// Why a function under `#[distributed_lock]` did not run, or not to its end.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LockFailure {
    /// The lock was not acquired; the body never started.
    Acquire(AcquireError),
    /// The lock was lost while the body ran; the body was dropped at an `.await`.
    Lost(LostError),
}

impl std::fmt::Display for LockFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Acquire(error) => error.fmt(f),
            Self::Lost(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LockFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Transparent: the message above is already the inner error's own.
        match self {
            Self::Acquire(error) => error.source(),
            Self::Lost(error) => error.source(),
        }
    }
}

impl From<AcquireError> for LockFailure {
    fn from(error: AcquireError) -> Self {
        Self::Acquire(error)
    }
}

impl From<LostError> for LockFailure {
    fn from(error: LostError) -> Self {
        Self::Lost(error)
    }
}

/// A lost lock becomes [`AcquireError::Unavailable`], which says that the lock was lost.
impl From<LockFailure> for AcquireError {
    fn from(failure: LockFailure) -> Self {
        match failure {
            LockFailure::Acquire(error) => error,
            LockFailure::Lost(lost) => Self::Unavailable(UnavailableError::lost(lost)),
        }
    }
}

/// A return type that can say that the function did not have its lock.
///
/// `#[distributed_lock]` needs it of the function's return type, unless `on_busy` makes the value.
/// It holds for every `Result<T, E>` with `E: From<AcquireError>`, and with the feature `axum` for
/// `axum::response::Response`. Implement it for a return type of your own:
///
/// ```
/// use lock_core::{FromLockError, LockFailure};
///
/// enum Reply {
///     Done,
///     TryLater,
/// }
///
/// impl FromLockError for Reply {
///     fn from_lock_error(_: LockFailure) -> Self {
///         Reply::TryLater
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't say that the lock was not had",
    label = "no value for a lock that was not acquired, or was lost",
    note = "return a `Result<_, E>` with `E: From<AcquireError>`, or an axum `Response` (feature \
            `axum` of lock-core)",
    note = "or make the value with `on_busy = |error| ...`; if that closure uses an argument, add \
            `on_lost = \"report\"`, because arguments are dropped with the body"
)]
pub trait FromLockError: Sized {
    /// The function's value for `failure`.
    fn from_lock_error(failure: LockFailure) -> Self;
}

impl<T, E: From<AcquireError>> FromLockError for Result<T, E> {
    fn from_lock_error(failure: LockFailure) -> Self {
        Err(E::from(AcquireError::from(failure)))
    }
}

/// Calls `on_busy`. A function, because it tells the compiler the type of a closure's parameter.
pub fn answer<T, F: FnOnce(AcquireError) -> T>(on_busy: F, error: AcquireError) -> T {
    on_busy(error)
}

/// What `on_busy` is told when the lock was lost.
#[must_use]
pub fn lost_as_acquire_error(lost: LostError) -> AcquireError {
    LockFailure::Lost(lost).into()
}
