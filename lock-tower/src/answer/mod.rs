//! What the layer answers when the handler did not run to its end.
//!
//! Every answer is `application/problem+json` (RFC 9457) with a `code` that stays the same over
//! versions, and with `Retry-After` where coming back may help:
//!
//! | cause | status | `code` | `Retry-After` |
//! |---|---|---|---|
//! | others held the lock for the whole budget, or for all but the time that a hold takes | 409, or as [`busy_status`](crate::LockLayer::busy_status) says | `lock_timeout` | yes |
//! | the line takes longer than the budget, or is full in this process | 503 | `lock_overloaded` | yes |
//! | the cap on waiters per key | 429 | `lock_waiters_per_key` | yes |
//! | the cap on waiters in total | 429 | `lock_waiters` | yes |
//! | the store is out of reach | 503 | `lock_unavailable` | yes |
//! | too few [`replicas`](crate::LockLayer::replicas) have acknowledged the grant | 503 | `lock_not_replicated` | yes |
//! | the lock was lost while the handler ran | 503 | `lock_lost` | yes |
//! | the client is shut down | 503 | `lock_closed` | yes |
//! | the request gives no good key | 400, or as the extractor says | `lock_key_…`, `lock_body_…` | no |
//! | the layer is set up wrongly | 500 | `lock_path_…`, `lock_misconfigured` | no |
//!
//! `Retry-After` is the estimated wait in whole seconds, rounded up, at least 1, plus up to a
//! quarter of it (at least up to 1 s) at random, so that those who were refused together do not
//! come back together. The key is not repeated to the client.
//!
//! The answers of the `IdempotencyLayer` are of the same kind; see the module `idempotency`.

mod custom;
mod problem;
mod refusal;

pub(crate) use custom::{CustomBody, custom};
#[cfg(any(feature = "axum", feature = "idempotency"))]
pub(crate) use problem::problem;
#[cfg(feature = "idempotency")]
pub(crate) use problem::retry_after;
pub use refusal::{Cause, Refusal};
