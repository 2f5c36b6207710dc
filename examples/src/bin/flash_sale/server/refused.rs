//! The answers without an item.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lock_core::AcquireError;

use super::buy::{Code, Receipt};

#[derive(Debug)]
pub(super) enum Refused {
    SoldOut {
        waited_us: u64,
        left: i64,
        token: Option<u64>,
    },
    NotOnSale,
    /// The lock was lost and somebody else has written since.
    Stale,
    Lock(AcquireError),
    Database(sqlx::Error),
}

impl From<AcquireError> for Refused {
    fn from(error: AcquireError) -> Self {
        Self::Lock(error)
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
            Self::Database(error) => {
                eprintln!("flash-sale: the database: {error}");
                (StatusCode::INTERNAL_SERVER_ERROR, "the database failed").into_response()
            }
        }
    }
}
