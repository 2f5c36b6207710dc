//! What `#[idempotent]` expands to: where the engine comes from ([`EngineSource`]), which record
//! is meant ([`Call`]), and how the function is run or replayed under it ([`run`]).

#[cfg(feature = "axum")]
mod axum;
mod call;
mod source;

#[cfg(feature = "axum")]
pub use self::axum::client_of_state;
pub use self::call::{Call, Values, run, values};
pub use self::source::{EngineSource, IntoScope, scope};
