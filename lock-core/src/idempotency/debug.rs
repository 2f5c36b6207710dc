//! Outcomes as `Debug` shows them: how large they are, and not what callers were answered.

use std::fmt::{Debug, Formatter, Result};

use bytes::Bytes;

use super::begun::Begun;
#[cfg(feature = "idempotent")]
use super::replay::Keep;
use super::single_flight::End;
use crate::records::{Claimed, Found, Outcome};

/// A payload in the words of a log.
struct Size(usize);

impl Debug for Size {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} bytes", self.0)
    }
}

fn payload(f: &mut Formatter<'_>, variant: &str, payload: &Bytes) -> Result {
    f.debug_tuple(variant).field(&Size(payload.len())).finish()
}

impl Debug for Begun {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Run(execution) => f.debug_tuple("Run").field(execution).finish(),
            Self::Replay(bytes) => payload(f, "Replay", bytes),
            Self::InFlight { age } => f.debug_struct("InFlight").field("age", age).finish(),
            Self::WithoutPayload => f.write_str("WithoutPayload"),
            Self::Mismatch => f.write_str("Mismatch"),
            Self::Unknown { age } => f.debug_struct("Unknown").field("age", age).finish(),
        }
    }
}

impl Debug for Found {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Absent => f.write_str("Absent"),
            Self::InFlight { age, token } => {
                f.debug_struct("InFlight").field("age", age).field("token", token).finish()
            }
            Self::Done(bytes) => payload(f, "Done", bytes),
            Self::WithoutPayload => f.write_str("WithoutPayload"),
            Self::Mismatch => f.write_str("Mismatch"),
        }
    }
}

impl Debug for Claimed {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Claimed { replaced } => {
                f.debug_struct("Claimed").field("replaced", replaced).finish()
            }
            Self::InFlight { age, token } => {
                f.debug_struct("InFlight").field("age", age).field("token", token).finish()
            }
            Self::Done(bytes) => payload(f, "Done", bytes),
            Self::WithoutPayload => f.write_str("WithoutPayload"),
            Self::Mismatch => f.write_str("Mismatch"),
            Self::Unknown { age } => f.debug_struct("Unknown").field("age", age).finish(),
        }
    }
}

impl Debug for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Payload(bytes) => payload(f, "Payload", bytes),
            Self::WithoutPayload => f.write_str("WithoutPayload"),
        }
    }
}

#[cfg(feature = "idempotent")]
impl Debug for Keep {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Payload(bytes) => payload(f, "Payload", bytes),
            Self::WithoutPayload => f.write_str("WithoutPayload"),
            Self::Nothing => f.write_str("Nothing"),
            Self::Unknown => f.write_str("Unknown"),
        }
    }
}

impl Debug for End {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Done(bytes) => payload(f, "Done", bytes),
            Self::WithoutPayload => f.write_str("WithoutPayload"),
            Self::Mismatch => f.write_str("Mismatch"),
            Self::Unknown { age } => f.debug_struct("Unknown").field("age", age).finish(),
            Self::Failed(error) => f.debug_tuple("Failed").field(error).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_callers_were_answered_is_not_printed() {
        let answer = Bytes::from_static(b"card 4242");
        let texts = [
            format!("{:?}", Begun::Replay(answer.clone())),
            format!("{:?}", Found::Done(answer.clone())),
            format!("{:?}", Claimed::Done(answer.clone())),
            format!("{:?}", Outcome::Payload(answer.clone())),
            #[cfg(feature = "idempotent")]
            format!("{:?}", Keep::Payload(answer.clone())),
            format!("{:?}", End::Done(answer)),
        ];
        for text in texts {
            assert!(text.contains("9 bytes") && !text.contains("4242"), "{text}");
        }
    }
}
