//! Return types: `?`, early returns, aliases, coercions, responses, own types.
#![deny(warnings)]

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lock_core::FromLockError;
use lock_core::{AcquireError, LockClient, distributed_lock};

#[derive(Debug)]
enum AppError {
    Lock(AcquireError),
    Parse(std::num::ParseIntError),
}

impl From<AcquireError> for AppError {
    fn from(error: AcquireError) -> Self {
        Self::Lock(error)
    }
}

impl From<std::num::ParseIntError> for AppError {
    fn from(error: std::num::ParseIntError) -> Self {
        Self::Parse(error)
    }
}

type AppResult<T> = Result<T, AppError>;

#[distributed_lock(key = "q:{text}")]
async fn question(text: String) -> AppResult<u64> {
    let number: u64 = text.parse()?;
    if number == 0 {
        return Ok(1);
    }
    Ok(number)
}

#[distributed_lock(key = "coerced")]
async fn coerced(early: bool) -> Result<Box<dyn Fn() -> u8 + Send>, Box<dyn std::error::Error>> {
    if early {
        return Ok(Box::new(|| 1));
    }
    Ok(Box::new(|| 2))
}

#[distributed_lock(key = "inferred")]
async fn inferred(_empty: bool) -> Result<Vec<u8>, AppError> {
    Ok(Default::default())
}

#[distributed_lock(key = "response")]
async fn response(early: bool) -> Response {
    if early {
        return StatusCode::NO_CONTENT.into_response();
    }
    "late".into_response()
}

#[distributed_lock(key = "opaque")]
async fn opaque(early: bool) -> impl IntoResponse {
    if early {
        return (StatusCode::CREATED, "early");
    }
    (StatusCode::OK, "late")
}

#[distributed_lock(key = "opaque")]
async fn opaque_answered(_early: bool) -> impl IntoResponse {
    StatusCode::OK
}

#[distributed_lock(key = "inside")]
async fn inside(_early: bool) -> Result<impl IntoResponse, AppError> {
    Ok("inside")
}

#[distributed_lock(key = "axum-result")]
async fn axum_result(fail: bool) -> axum::response::Result<&'static str> {
    if fail {
        Err(StatusCode::BAD_REQUEST)?;
    }
    Ok("fine")
}

struct Reply(bool);

impl FromLockError for Reply {
    fn from_lock_error(_: AcquireError) -> Self {
        Self(false)
    }
}

#[distributed_lock(key = "own")]
async fn own(_x: u8) -> Reply {
    Reply(true)
}

#[distributed_lock(key = "unit", on_busy = |_| ())]
async fn unit(_x: u8) {}

#[distributed_lock(key = "endless")]
async fn endless(_x: u8) -> Result<std::convert::Infallible, AcquireError> {
    loop {
        std::future::pending::<()>().await;
    }
}

#[distributed_lock(key = "temporary")]
async fn temporary(text: std::sync::Arc<std::sync::Mutex<String>>) -> Result<usize, AcquireError> {
    // In the 2021 edition the guard in the tail expression outlives the block's own variables.
    match text.lock() {
        Ok(text) => Ok(text.len()),
        Err(_) => Ok(0),
    }
}

pub(crate) fn main() {
    let _ = LockClient::memory().install_global();
    let _ = (question, coerced, inferred, response, opaque, opaque_answered, inside, axum_result);
    let _ = (unit, endless, temporary);
    let _ = async {
        let Reply(_had) = own(1).await;
    };
}
