//! What of a function's value is kept, and how it comes back.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::IdempotencyError;

/// What to keep of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// This, for all later calls with the key.
    Payload(Bytes),
    /// That it has happened, and nothing to replay.
    Tombstone,
    /// Nothing: a later call runs, unless a lock inside has cut its work, which is as
    /// [`Unknown`](Self::Unknown).
    Nothing,
    /// Nothing, as the body was cut in the middle: nobody knows what it has done, and `on_unknown`
    /// decides about a later call.
    Unknown,
}

/// The return type of a function under `#[idempotent]`.
///
/// It holds for every `Result<T, E>` whose `T` can be serialised and read back, with
/// `E: From<IdempotencyError>`: an `Ok` is kept as JSON, an `Err` is not, so that a later call
/// runs. An `Ok` that can't be serialised has happened all the same, and leaves a tombstone.
/// Implement it for a return type of your own, to keep some of its failures too.
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
                    Keep::Tombstone
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
        assert_eq!(value.keep(), Keep::Tombstone);
    }

    #[test]
    fn another_type_than_was_kept_is_an_error() {
        let value = Outcome::<u8>::replay(b"\"text\"");
        assert!(matches!(value, Err(IdempotencyError::Unreadable { .. })), "{value:?}");
    }
}
