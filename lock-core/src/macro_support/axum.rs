//! axum: the client from the state, and lock failures as responses.

use axum_core::body::Body;
use axum_core::extract::FromRef;
use axum_core::response::{IntoResponse, Response};

use super::FromLockError;
use crate::problem::Problem;
use crate::scope::HandlerRan;
use crate::{AcquireError, LockClient};

/// A state of axum that has a client.
#[diagnostic::on_unimplemented(
    message = "the lock client is not found in the state `{Self}`",
    label = "`LockClient: FromRef<{Self}>` does not hold",
    note = "derive `FromRef` for `{Self}`, which has a field of type `LockClient`, or say where the \
            client is, as in `client = app.locks`"
)]
pub trait HasClient {
    /// The client.
    fn client(&self) -> LockClient;
}

#[diagnostic::do_not_recommend]
impl<S> HasClient for S
where
    LockClient: FromRef<S>,
{
    fn client(&self) -> LockClient {
        LockClient::from_ref(self)
    }
}

/// The client of an axum state.
pub fn client_of_state<S: HasClient>(state: &S) -> Option<LockClient> {
    Some(state.client())
}

/// The value of a function that returns `impl IntoResponse`: that of its body, or a response about
/// the lock.
#[derive(Debug)]
pub enum Answer<T> {
    /// The body ran.
    Body(T),
    /// It did not, or not to its end.
    Failed(Response),
}

impl<T> Answer<T> {
    /// An answer without the body's value.
    pub fn failed(failure: impl IntoResponse) -> Self {
        Self::Failed(failure.into_response())
    }
}

impl<T: IntoResponse> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Body(value) => value.into_response(),
            Self::Failed(response) => response,
        }
    }
}

impl FromLockError for Response {
    fn from_lock_error(error: AcquireError) -> Self {
        error.into_response()
    }
}

/// A [`Problem`], which has the table of the statuses. That of [`AcquireError::Lost`] has
/// [`HandlerRan::InPart`] among its extensions. The others say nothing of how far a handler got: it
/// may have asked for its lock in the middle of its work.
impl IntoResponse for AcquireError {
    fn into_response(self) -> Response {
        let mut response = Problem::of(&self).response().map(Body::from);
        if self.is_lost() {
            response.extensions_mut().insert(HandlerRan::InPart);
        }
        response
    }
}
