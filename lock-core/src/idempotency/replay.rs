//! The part of a function's value that is kept, how it comes back, and why there is none.

use std::time::Duration;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::ser::Serialize;
use serde_json::error::Category;

use super::{BeginError, CompleteError, value_hash};
use crate::error::LostError;
use crate::key::KeyError;

/// The decision about a value: to keep it, to keep that it has happened, or to keep nothing. `Debug`
/// shows how large it is, and nothing of it.
#[derive(Clone, PartialEq, Eq)]
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
/// runs.
///
/// A value that is kept was read back before: it says the same to a serialiser as the first answer
/// did. An `Ok` that JSON does not bring back has happened all the same, and leaves an outcome
/// without payload. Such are `Some(None)`, `Some(())`, and a number that is infinite or none. What
/// a type tells serde to leave out comes back as its default.
///
/// Implement it for a return type of your own, to keep some of its failures too.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be kept and replayed",
    label = "no way to keep this value, and to say that the function did not run",
    note = "return a `Result<T, E>` with `T: Serialize + DeserializeOwned` and \
            `E: From<IdempotencyError>`",
    note = "or implement `lock_core::idempotency::Replayable` for a type of your own"
)]
pub trait Replayable: Sized {
    /// The decision on what to keep of this value.
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
        match self.as_ref().map(json_of) {
            Ok(Ok(json)) => Keep::Payload(json.into()),
            Ok(Err(reason)) => {
                tracing::warn!(%reason, "the value of an idempotent function can't be kept");
                Keep::WithoutPayload
            }
            Err(_) => Keep::Nothing,
        }
    }

    fn replay(payload: &[u8]) -> Self {
        serde_json::from_slice(payload)
            .map_err(|error| E::from(IdempotencyError::Unreadable { reason: place_of(&error) }))
    }

    fn refuse(error: IdempotencyError) -> Self {
        Err(E::from(error))
    }
}

/// The value as JSON, if that brings it back.
fn json_of<T: Serialize + DeserializeOwned>(value: &T) -> Result<Vec<u8>, String> {
    let json = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    // A type may read another value out of it than it wrote, or none.
    let back = serde_json::from_slice(&json).map_err(|error| place_of(&error))?;
    match value_hash::are_same(value, &back) {
        Ok(true) => Ok(json),
        Ok(false) => Err("JSON brings it back as another value".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Where a value cannot be read. The deserialiser's own words quote it, and callers were answered it.
fn place_of(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    match error.classify() {
        Category::Data => format!("it is of another type at line {line}, column {column}"),
        _ => format!("it is no JSON at line {line}, column {column}"),
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
    /// A part of the fingerprint could not be serialised; nothing was run.
    #[error("the fingerprint of this call could not be made: {reason}")]
    Fingerprint {
        /// The message of the serialiser.
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
    /// It has run, and its value could not be kept, or would not have come back the same.
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
    #[error("the call ended too late")]
    Stale(#[source] CompleteError),
    /// The transaction of the body was not committed with its value, or it is not known whether it
    /// was. A retry runs, or is given the value. Where work in it was
    /// [cut](super::CommitError::Cut), the next call finds an outcome that is unknown.
    #[cfg(feature = "sql")]
    #[error(transparent)]
    NotCommitted(std::sync::Arc<super::CommitError>),
    /// The value that was kept is none of the function's type: the type has changed since.
    #[error("the value that was kept can't be read: {reason}")]
    Unreadable {
        /// The place in its JSON, and nothing of what is there.
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
            #[cfg(feature = "sql")]
            Self::NotCommitted(error) => error.is_retryable(),
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
    use std::collections::{HashMap, HashSet};

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
        let value: Outcome<HashMap<(u8, u8), u8>> = Ok([((1, 2), 3)].into());
        assert_eq!(value.keep(), Keep::WithoutPayload);
    }

    /// Kept, and read back, if it is kept.
    fn replayed<T: Serialize + DeserializeOwned>(value: T) -> Option<T> {
        let value = Outcome::Ok(value);
        match value.keep() {
            Keep::Payload(json) => Some(Outcome::replay(&json).unwrap()),
            keep => {
                assert_eq!(keep, Keep::WithoutPayload);
                None
            }
        }
    }

    #[test]
    fn a_number_is_replayed_to_its_last_bit() {
        let mut bits = 0x9E37_79B9_7F4A_7C15_u64;
        let mut numbers = vec![0.0, -0.0, 0.1, f64::MIN_POSITIVE, f64::MAX, 5e-324];
        numbers.extend((0..2_000).map(|_| {
            bits = bits.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            f64::from_bits(bits)
        }));
        for number in numbers.into_iter().filter(|number| number.is_finite()) {
            assert_eq!(replayed(number).map(f64::to_bits), Some(number.to_bits()), "{number:e}");
            let small = number as f32;
            if small.is_finite() {
                assert_eq!(replayed(small).map(f32::to_bits), Some(small.to_bits()), "{small:e}");
            }
        }
    }

    #[test]
    fn what_json_brings_back_as_another_value_is_not_kept() {
        assert_eq!(replayed(None::<Option<u8>>), Some(None));
        assert_eq!(replayed(Some(Some(1))), Some(Some(Some(1))));
        assert_eq!(replayed(Some(None::<u8>)), None);
        assert_eq!(replayed(Some(())), None);
        assert_eq!(replayed(Some(f64::NAN)), None);
        assert_eq!(replayed(vec![Some(1.0), Some(f64::INFINITY)]), None);
        // Whoever keeps this would be told that it cannot be read, for the life of the record.
        assert_eq!(replayed(f64::NAN), None);
        assert_eq!(replayed(f32::NEG_INFINITY), None);
    }

    #[test]
    fn what_has_no_order_of_its_own_is_kept() {
        let words: HashSet<_> = (0..64).map(|word| word.to_string()).collect();
        assert_eq!(replayed(words.clone()).as_ref(), Some(&words));
        let map: HashMap<_, _> = words.into_iter().zip(0..).collect();
        assert_eq!(replayed(map.clone()), Some(map));
    }

    #[test]
    fn a_type_that_reads_another_value_than_it_wrote_is_not_kept() {
        #[derive(Debug, PartialEq)]
        struct Cents(u64);
        impl Serialize for Cents {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_u64(self.0 / 100)
            }
        }
        impl<'de> serde::Deserialize<'de> for Cents {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                u64::deserialize(deserializer).map(Self)
            }
        }
        assert_eq!(replayed(Cents(500)), None);
        let json = serde_json::json!({ "id": -1, "sum": 0.1, "large": u64::MAX, "none": null });
        assert_eq!(replayed(json.clone()), Some(json));
    }

    /// Which says where, and not what callers were answered.
    #[test]
    fn another_type_than_was_kept_is_an_error() {
        for (kept, why) in [(&b"\"card 4242\""[..], "of another type"), (b"\"card 4242", "no JSON")]
        {
            let error = Outcome::<u8>::replay(kept).unwrap_err();
            assert!(matches!(error, IdempotencyError::Unreadable { .. }), "{error:?}");
            let texts = format!("{error} {error:?}");
            assert!(texts.contains(why) && !texts.contains("4242"), "{texts}");
        }
    }
}
