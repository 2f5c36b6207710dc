//! What of a function's value is kept, how it comes back, and why there is none.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{BeginError, CompleteError};
use crate::error::LostError;
use crate::key::KeyError;

/// What to keep of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// This, for all later calls with the key.
    Payload(Bytes),
    /// That it has happened, and nothing to replay.
    WithoutPayload,
    /// Nothing: a later call runs, unless a lock inside has cut its work, which is as
    /// [`Unknown`](Self::Unknown).
    Nothing,
    /// Nothing, as the body was cut in the middle: nobody knows what it has done, and `on_unknown`
    /// decides about a later call.
    Unknown,
}

/// The return type of a function under `#[idempotent]`.
///
/// Every `Result<T, E>` is one whose `T` can be serialised and read back, with `E:
/// From<IdempotencyError>`. An `Ok` is kept as JSON. An `Err` is not kept, so that a later call
/// runs. An `Ok` that can't be serialised has happened all the same, and leaves an outcome without
/// payload. Implement it for a return type of your own, to keep some of its failures too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be kept and replayed",
    label = "no way to keep this value, and to say that the function did not run",
    note = "return a `Result<T, E>` with `T: Serialize + DeserializeOwned` and \
            `E: From<IdempotencyError>`",
    note = "or implement `lock_core::idempotency::Replayable` for a type of your own"
)]
pub trait Replayable: Sized {
    /// What to keep of this value.
    fn keep(&self) -> Keep;

    /// The value that was kept as `payload`.
    fn replay(payload: &[u8]) -> Self;

    /// The value where there is none.
    fn refuse(error: IdempotencyError) -> Self;
}

impl<T, E> Replayable for Result<T, E>
where
    T: Serialize + DeserializeOwned,
    E: From<IdempotencyError>,
{
    fn keep(&self) -> Keep {
        match self {
            Ok(value) => match serde_json::to_vec(value) {
                Ok(json) => Keep::Payload(json.into()),
                Err(error) => {
                    tracing::warn!(%error, "the value of an idempotent function can't be kept");
                    Keep::WithoutPayload
                }
            },
            Err(_) => Keep::Nothing,
        }
    }

    fn replay(payload: &[u8]) -> Self {
        serde_json::from_slice(payload)
            .map_err(|error| E::from(IdempotencyError::Unreadable { reason: error.to_string() }))
    }

    fn refuse(error: IdempotencyError) -> Self {
        Err(E::from(error))
    }
}

/// Why a function under `#[idempotent]` has neither run to its end nor been replayed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum IdempotencyError {
    /// It is not known whether it may run; nothing was run.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// The key or the scope is empty or too long; nothing was run.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What the fingerprint is made of could not be serialised; nothing was run.
    #[error("the fingerprint of this call could not be made: {reason}")]
    Fingerprint {
        /// What the serialiser said.
        reason: String,
    },
    /// A call with this key runs, and did not end in time.
    #[error("a call with this idempotency key is running since {age:?}")]
    InFlight {
        /// The time since it began; zero where that is not known.
        age: Duration,
    },
    /// The key was used for a call of another function, or with another fingerprint.
    #[error("this idempotency key was used for another call")]
    Mismatch,
    /// It has run, and its value could not be kept.
    #[error("the call with this idempotency key has ended, and its value was not kept")]
    WithoutPayload,
    /// It was begun, and left no outcome.
    #[error("the call with this idempotency key began {age:?} ago, and its outcome is unknown")]
    Unknown {
        /// The time since it began.
        age: Duration,
    },
    /// The lock was lost while the body ran, so it was dropped at an `.await`. The next call finds
    /// an outcome that is unknown.
    #[error(transparent)]
    Lost(#[from] LostError),
    /// The body has ended too late: another call has taken over, and its outcome counts.
    #[error("the call ended too late: {0}")]
    Stale(#[source] CompleteError),
    /// What was kept is no value of the function's type: the type has changed since.
    #[error("the value that was kept can't be read: {reason}")]
    Unreadable {
        /// What the deserialiser said.
        reason: String,
    },
}

impl IdempotencyError {
    /// Whether the same call may succeed later without a change by the caller.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Begin(error) => error.is_retryable(),
            Self::InFlight { .. } | Self::Lost(_) | Self::Stale(_) => true,
            Self::Key(_)
            | Self::Fingerprint { .. }
            | Self::Mismatch
            | Self::WithoutPayload
            | Self::Unknown { .. }
            | Self::Unreadable { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome<T> = Result<T, IdempotencyError>;

    #[test]
    fn an_ok_comes_back_and_an_error_is_not_kept() {
        let value: Outcome<(u8, String)> = Ok((1, "paid".into()));
        let Keep::Payload(json) = value.keep() else { panic!("it is kept") };
        assert_eq!(Outcome::<(u8, String)>::replay(&json).unwrap(), (1, "paid".to_owned()));
        assert_eq!(Outcome::<u8>::Err(IdempotencyError::Mismatch).keep(), Keep::Nothing);
    }

    #[test]
    fn what_can_not_be_serialised_has_happened_all_the_same() {
        let value: Outcome<std::collections::HashMap<(u8, u8), u8>> = Ok([((1, 2), 3)].into());
        assert_eq!(value.keep(), Keep::WithoutPayload);
    }

    #[test]
    fn another_type_than_was_kept_is_an_error() {
        let value = Outcome::<u8>::replay(b"\"text\"");
        assert!(matches!(value, Err(IdempotencyError::Unreadable { .. })), "{value:?}");
    }
}
