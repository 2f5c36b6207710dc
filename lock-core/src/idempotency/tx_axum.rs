//! axum: a transaction as an argument of a handler.

use std::convert::Infallible;
use std::future::{Future, ready};

use axum_core::body::Body;
use axum_core::extract::{FromRef, FromRequestParts};
use axum_core::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use sqlx::Pool;

use super::transaction_error::TxError;
use super::tx::{Tx, TxSeat};
use crate::problem::Problem;
use crate::sql::RecordDialect;

/// The pool is that of the state. Behind an `IdempotencyLayer` the transaction ends with the
/// response, elsewhere it needs `#[idempotent(tx = ..)]`.
impl<S, D> FromRequestParts<S> for Tx<D>
where
    D: RecordDialect,
    Pool<D>: FromRef<S>,
    S: Sync,
{
    type Rejection = Infallible;

    fn from_request_parts(
        parts: &mut Parts,
        state: &S,
    ) -> impl Future<Output = Result<Self, Infallible>> + Send {
        let tx = Self::of(&Pool::from_ref(state));
        if let Some(seat) = parts.extensions.get::<TxSeat>() {
            // It is new, and has none yet.
            tx.take_seat(seat.clone());
        }
        ready(Ok(tx))
    }
}

/// 500 where nobody would commit or there are two, and 503 where the database has no transaction.
impl IntoResponse for TxError {
    fn into_response(self) -> Response {
        tracing::error!("{self}");
        let (status, code, title) = match self {
            Self::Unseated => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "idempotency_misconfigured",
                "this handler runs under no idempotency key",
            ),
            Self::Second => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "idempotency_misconfigured",
                "this handler works in two transactions",
            ),
            Self::Database(_) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "idempotency_no_transaction",
                "the database has no transaction now",
            ),
        };
        Problem::new(status, code, title).response().map(Body::from)
    }
}
