//! The code behind `#[idempotent]`: where the engine comes from ([`EngineSource`]), which record is
//! meant ([`Call`]), and how the function is run or replayed under it ([`run`]).
//!
//! - `source`: the engine and the scope of a call. `axum`: the engine from the state.
//! - `call`: one call.

#[cfg(feature = "axum")]
mod axum;
mod call;
mod source;

#[cfg(feature = "axum")]
pub use self::axum::client_of_state;
pub use self::call::{Call, Values, run, values};
pub use self::source::{EngineSource, IntoScope, scope};
