//! axum: the engine from the state.

use axum_core::extract::FromRef;

use crate::idempotency::Idempotency;

/// The engine of an axum state.
pub fn client_of_state<S>(state: &S) -> Option<Idempotency>
where
    Idempotency: FromRef<S>,
{
    Some(Idempotency::from_ref(state))
}
