//! The answers of the layer when the handler did not run to its end.
//!
//! Every answer is `application/problem+json` (RFC 9457) with a `code` that stays the same over
//! versions, and with `Retry-After` where coming back may help:
//!
//! | cause | status | `code` | `Retry-After` |
//! |---|---|---|---|
//! | others held the lock for the whole budget, or for all but the time that a hold takes | 409 | `lock_timeout` | yes |
//! | the line takes longer than the budget, or is full in this process | 429 | `lock_overloaded` | yes |
//! | the cap on waiters per key | 429 | `lock_waiters_per_key` | yes |
//! | the cap on waiters in total | 429 | `lock_waiters` | yes |
//! | the store is out of reach | 503 | `lock_unavailable` | where it may come back by itself |
//! | too few [`replicas`](crate::LockLayer::replicas) have acknowledged the grant | 503 | `lock_not_replicated` | yes, but for a [re-entry](lock_core::error::NotReplicatedError::is_reentry) |
//! | the client is shut down | 503 | `lock_closed` | yes |
//! | the lock was lost while the handler ran | 503 | `lock_lost` | no |
//! | the runtime was shut down while the handler ran in its task | 503 | `lock_closed` | no |
//! | the request gives no good key | 400, or as the extractor says | `lock_key_…`, `lock_body_…` | no |
//! | the handler upgrades its connection, and leaves the lock behind ([`UpgradeLock`](crate::UpgradeLock)) | 500 | `lock_upgrade_unheld` | no |
//! | the layer is set up wrongly | 500 | `lock_path_…`, `lock_misconfigured` | no |
//!
//! 429 is for what the client may try again later, and 503 for a service that is down. Load
//! balancers take a server that answers 503 out of service, and tower-http's `TraceLayer` logs each
//! as an error. [`LockLayer::status`](crate::LockLayer::status) gives a cause another status. The
//! documents are those of [`lock_core::problem::Problem`], which `#[distributed_lock]` answers with too.
//!
//! `Retry-After` is the estimated wait in whole seconds, rounded up, at least 1. Up to a quarter of
//! it (at least up to 1 s) is added at random, so that those who were refused together do not come
//! back together. The key is not repeated to the client.
//!
//! The answers of the `IdempotencyLayer` are of the same kind; see the module `idempotency`.
//!
//! # gRPC
//!
//! A request whose content type is `application/grpc` (or `application/grpc-web`) is answered in
//! the way of gRPC: status 200, and trailers without a message. `grpc-message` is the `detail`.
//! `grpc-status-details-bin` holds a `google.rpc.ErrorInfo`, whose `reason` is the `code` and whose
//! `domain` is `lock-tower`, and where coming back may help a `google.rpc.RetryInfo` with the same
//! delay as `Retry-After`. `grpc-retry-pushback-ms` is that delay, and -1 otherwise: then no client
//! tries again by itself, whatever its policy says.
//!
//! | what is answered with | `grpc-status` |
//! |---|---|
//! | 409 (`lock_timeout`, `idempotency_in_flight`), 423, 425 | 10 `ABORTED` |
//! | 429 (`lock_overloaded` and the caps) | 8 `RESOURCE_EXHAUSTED` |
//! | 503 (`lock_unavailable`, `lock_not_replicated`, `lock_closed`), 502 | 14 `UNAVAILABLE` |
//! | whatever stopped a handler that had begun (`lock_lost`, `idempotency_lost`) | 10 `ABORTED` |
//! | 412, 422, 424, `idempotency_response_not_stored`, `idempotency_outcome_unknown` | 9 `FAILED_PRECONDITION` |
//! | 401 | 16 `UNAUTHENTICATED` |
//! | 403 | 7 `PERMISSION_DENIED` |
//! | 404 | 5 `NOT_FOUND` |
//! | 408, 504 | 4 `DEADLINE_EXCEEDED` |
//! | 501 | 12 `UNIMPLEMENTED` |
//! | any other 4xx, as 400 or 413 | 3 `INVALID_ARGUMENT` |
//! | any other 5xx, as 500 | 13 `INTERNAL` |
//!
//! A status that was given to a cause is for HTTP alone. The messages of gRPC are no JSON, so take
//! the key from the metadata, as with [`header`](crate::key::header).
//!
//! # How far the handler got
//!
//! Each answer carries a [`HandlerRan`](lock_core::scope::HandlerRan) in the extensions of the response:
//! `No` where the handler never began, `InPart` where it was stopped. A layer outside reads it where
//! the status does not tell the two apart.

// Files:
//
// - `answers`: the choices of the application, and the defaults. `cause`: why a layer answers.
// - `refusal`: a refused request, with all that is known. `reject`: a refusal before any wait.
// - `reply`: the answer in the form that the client reads.
// - `grpc`: an answer as trailers. `protobuf`: the bytes of its details.

mod answers;
mod cause;
mod grpc;
mod protobuf;
mod refusal;
mod reject;
mod reply;

pub use ::{bytes, http, http_body_util};
pub(crate) use answers::{AnswerBody, Answers};
pub use cause::Cause;
pub(crate) use grpc::Wire;
pub use refusal::Refusal;
pub use reject::Reject;
pub(crate) use reply::Reply;
