//! What `#[idempotent]` expands to: where the engine comes from ([`EngineSource`]), which record
//! is meant ([`Call`]), what of the function's value is kept ([`Replayable`]), and what the
//! function returns when it did not run ([`IdempotencyError`]).

#[cfg(feature = "axum")]
mod axum;
mod call;
mod error;
mod replay;
mod source;

#[cfg(feature = "axum")]
pub use self::axum::client_of_state;
pub use self::call::{Call, Values, run, values};
pub use self::error::IdempotencyError;
pub use self::replay::{Keep, Replayable};
pub use self::source::{EngineSource, IntoScope, scope};
