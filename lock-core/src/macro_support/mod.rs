//! The code behind `#[distributed_lock]`.
//!
//! The generated code should be small, readable in `cargo expand`, and free of decisions. So the
//! decisions are here:
//!
//! - [`ClientSource`]: where the client comes from.
//! - [`OneKey`], [`KeySet`]: what is locked.
//! - [`Call`]: how it is acquired.
//! - [`Cancelled`], [`Reported`]: what happens while the body runs.
//! - [`FromLockError`]: what the function returns when there is no lock.
//!
//! Only [`FromLockError`] is for users. The rest is reachable as
//! `lock_core::__private` because generated code has to reach it; it may change in any release.
//!
//! - `call`: one call. `client`: the source of its client. `key`: its key. `name`: its name.
//! - `held`: its guards. `scope`, `body`: the body in their scope, and under them.
//! - `failure`: the value of a function that did not have its lock.
//! - `axum`: the client from the state, failures as responses. `idempotent`: `#[idempotent]`.

#[cfg(feature = "axum")]
mod axum;
mod body;
mod call;
mod client;
mod failure;
mod held;
#[cfg(feature = "idempotent")]
pub mod idempotent;
mod key;
mod name;
mod scope;

#[cfg(feature = "axum")]
pub use self::axum::{Answer, HasClient, client_of_state};
pub use self::body::{Cancelled, Reported};
pub use self::call::{Acquire, Call, options};
pub use self::client::ClientSource;
pub use self::failure::{FromLockError, answer};
pub use self::held::Held;
pub use self::key::{KeyPart, KeyParts, function_key, key};
pub use self::name::function_name;
pub use crate::blocking::wait;
pub use crate::engine::{KeySet, OneKey};
