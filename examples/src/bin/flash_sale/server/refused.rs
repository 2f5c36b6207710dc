//! The answers without an item.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lock_core::AcquireError;
use lock_core::idempotency::{IdempotencyError, TxError};

use super::buy::{Code, Receipt};

#[derive(Debug)]
pub(crate) enum Refused {
    SoldOut {
        waited_us: u64,
        left: i64,
        token: Option<u64>,
    },
    NotOnSale,
    /// The lock was lost and somebody else has written since.
    Stale,
    Lock(AcquireError),
    /// It is not known that this order is free, or the transaction was not committed.
    Once(IdempotencyError),
    Database(sqlx::Error),
}

impl From<AcquireError> for Refused {
    fn from(error: AcquireError) -> Self {
        Self::Lock(error)
    }
}

impl From<IdempotencyError> for Refused {
    fn from(error: IdempotencyError) -> Self {
        Self::Once(error)
    }
}

impl From<TxError> for Refused {
    fn from(error: TxError) -> Self {
        match error {
            TxError::Database(error) => Self::Database(error),
            unseated => Self::Database(sqlx::Error::Configuration(unseated.into())),
        }
    }
}

impl From<sqlx::Error> for Refused {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::SoldOut { waited_us, left, token } => {
                let code = Code::SoldOut;
                let receipt = Receipt { code, waited_us, order: None, left, token };
                (StatusCode::GONE, Json(receipt)).into_response()
            }
            Self::NotOnSale => (StatusCode::NOT_FOUND, "this is not on sale").into_response(),
            Self::Stale => {
                (StatusCode::SERVICE_UNAVAILABLE, "somebody else was faster").into_response()
            }
            Self::Lock(error) => error.into_response(),
            Self::Once(error) => {
                let status = match error.is_retryable() {
                    true => StatusCode::SERVICE_UNAVAILABLE,
                    false => StatusCode::INTERNAL_SERVER_ERROR,
                };
                eprintln!("flash-sale: a purchase: {error}");
                (status, "the purchase was not done").into_response()
            }
            Self::Database(error) => {
                eprintln!("flash-sale: the database: {error}");
                (StatusCode::INTERNAL_SERVER_ERROR, "the database failed").into_response()
            }
        }
    }
}
