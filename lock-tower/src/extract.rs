//! Extractors for handlers behind a [`LockLayer`](crate::LockLayer) or an `IdempotencyLayer`.
//!
//! ```
//! use lock_tower::{FencingToken, LockGuardExt};
//!
//! async fn buy(FencingToken(token): FencingToken, LockGuardExt(lock): LockGuardExt) -> String {
//!     format!("{} under {token}", lock.key())
//! }
//! # let _ = buy;
//! ```
//!
//! With two layers around a handler, both tell of the inner one: of its lock, or of none where it
//! skipped the request. The outer one has a lock of another key, whose token says nothing here. An
//! `IdempotencyLayer` that does not look at the method of a request counts for none.
//!
//! [`UpgradeLock`] is an extractor, too, for handlers of web sockets.

use std::convert::Infallible;
use std::future::{Future, ready};

use axum_core::body::Body;
use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use axum_core::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use lock_core::LockHandle;
use lock_core::problem::Problem;

use crate::UpgradeLock;

/// The lock that this request runs under. As `Option<LockGuardExt>` it is `None` where the layer
/// skipped the request; of two layers, the inner one.
#[derive(Debug, Clone)]
pub struct LockGuardExt(pub LockHandle);

/// The fencing token of the lock that this request runs under: send it with every write. As
/// `Option<FencingToken>` it is `None` where the layer skipped the request; of two layers, the inner
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(pub lock_core::FencingToken);

/// The request runs under no lock: the layer is missing, or it skipped the request; for an
/// [`UpgradeLock`] also, it does not hold its lock until the end of the response
/// ([`HoldUntil::ResponseBody`](crate::HoldUntil::ResponseBody)). Answered with 500 and the code
/// `lock_not_held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this request runs under no lock: add a layer that takes one, or extract an `Option`")]
pub struct NoLock;

impl IntoResponse for NoLock {
    fn into_response(self) -> Response {
        tracing::error!("{self}");
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        let problem = Problem::new(status, "lock_not_held", "this request runs under no lock");
        problem.response().map(Body::from)
    }
}

impl<S: Sync> FromRequestParts<S> for LockGuardExt {
    type Rejection = NoLock;

    fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> impl Future<Output = Result<Self, NoLock>> + Send {
        ready(parts.extensions.get().cloned().map(Self).ok_or(NoLock))
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for LockGuardExt {
    type Rejection = Infallible;

    fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> impl Future<Output = Result<Option<Self>, Infallible>> + Send {
        ready(Ok(parts.extensions.get().cloned().map(Self)))
    }
}

impl<S: Sync> FromRequestParts<S> for FencingToken {
    type Rejection = NoLock;

    fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> impl Future<Output = Result<Self, NoLock>> + Send {
        ready(parts.extensions.get().copied().map(Self).ok_or(NoLock))
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for FencingToken {
    type Rejection = Infallible;

    fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> impl Future<Output = Result<Option<Self>, Infallible>> + Send {
        ready(Ok(parts.extensions.get().copied().map(Self)))
    }
}

impl<S: Sync> FromRequestParts<S> for UpgradeLock {
    type Rejection = NoLock;

    fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> impl Future<Output = Result<Self, NoLock>> + Send {
        ready(Self::of(&parts.extensions).ok_or(NoLock))
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for UpgradeLock {
    type Rejection = Infallible;

    fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> impl Future<Output = Result<Option<Self>, Infallible>> + Send {
        ready(Ok(Self::of(&parts.extensions)))
    }
}
