//! The value of a function that did not have its lock.

use crate::AcquireError;

/// A return type that can say that the function did not have its lock.
///
/// `#[distributed_lock]` needs it of the function's return type, unless `on_busy` makes the value.
/// It holds for every `Result<T, E>` with `E: From<AcquireError>`, and with the feature `axum` for
/// `axum::response::Response`. Implement it for a return type of your own:
///
/// ```
/// use lock_core::FromLockError;
/// use lock_core::AcquireError;
///
/// enum Reply {
///     Done,
///     TryLater,
///     NobodyKnows,
/// }
///
/// impl FromLockError for Reply {
///     fn from_lock_error(error: AcquireError) -> Self {
///         if error.is_lost() { Reply::NobodyKnows } else { Reply::TryLater }
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
    /// The function's value for `error`: the body never started, or, with
    /// [`AcquireError::Lost`], it was dropped at an `.await`.
    fn from_lock_error(error: AcquireError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<AcquireError>> FromLockError for Result<T, E> {
    fn from_lock_error(error: AcquireError) -> Self {
        Err(E::from(error))
    }
}

/// Calls `on_busy`. A function, because it tells the compiler the type of a closure's parameter.
pub fn answer<T, F: FnOnce(AcquireError) -> T>(on_busy: F, error: AcquireError) -> T {
    on_busy(error)
}
