//! The refusals of an idempotency layer, and their words.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderName, StatusCode};
use lock_core::AcquireError;
use lock_core::backend::FaultKind;
use lock_core::idempotency::BeginError;

use super::cause::Cause;
use super::key::{KEY_BYTES_MAX, KeyFault};
use super::places::Full;
use crate::answer::{self, Reject, Reply};

/// A request in flight is not told to come back later than this, however long it has run.
const IN_FLIGHT_RETRY_MAX: Duration = Duration::from_secs(30);

/// A [`Refusal`](answer::Refusal) of an idempotency layer, as
/// [`on_refused`](super::IdempotencyLayer::on_refused) gets it.
pub type Refusal<'a> = answer::Refusal<'a, Cause>;

impl<'a> Refusal<'a> {
    /// How long ago the other request with this key began, where there is one
    /// ([`Cause::InFlight`], [`Cause::Unknown`]).
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.age
    }

    fn said(
        cause: Cause,
        status: StatusCode,
        code: &'static str,
        detail: impl Into<Cow<'a, str>>,
    ) -> Self {
        Self::new(cause, Reply::new(status, code, detail))
    }

    fn with(self, change: impl FnOnce(Reply<'a>) -> Reply<'a>) -> Self {
        Self { reply: change(self.reply), ..self }
    }

    /// The handler had begun.
    fn in_part(self) -> Self {
        self.with(Reply::in_part)
    }

    pub(super) fn come_back(self, estimated_wait: Duration) -> Self {
        self.with(|reply| reply.come_back(estimated_wait))
    }

    pub(super) fn of_key(fault: KeyFault, header: &'a HeaderName) -> Self {
        let (code, detail) = match fault {
            KeyFault::Missing => {
                ("idempotency_key_missing", format!("this request needs the header `{header}`"))
            }
            KeyFault::Repeated => {
                ("idempotency_key_repeated", format!("`{header}` is given more than once"))
            }
            KeyFault::Empty => ("idempotency_key_empty", format!("`{header}` is empty")),
            KeyFault::TooLong => (
                "idempotency_key_too_long",
                format!("the key in `{header}` is over {KEY_BYTES_MAX} bytes"),
            ),
            KeyFault::Syntax => (
                "idempotency_key_invalid",
                format!("`{header}` is neither a quoted string nor a token"),
            ),
        };
        Self::said(Cause::Key, StatusCode::BAD_REQUEST, code, detail)
    }

    pub(super) fn of_scope(reject: Reject) -> Self {
        let detail = "nobody is known whose idempotency key this could be";
        Self::new(Cause::Scope, reject.reply("idempotency_scope_rejected", detail))
    }

    pub(super) fn body_too_large(bytes_max: usize) -> Self {
        let detail = format!("the body is over {bytes_max} bytes");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Self::said(Cause::Body, status, "idempotency_body_too_large", detail)
    }

    pub(super) fn body_incomplete() -> Self {
        let status = StatusCode::BAD_REQUEST;
        Self::said(Cause::Body, status, "idempotency_body_incomplete", "the body broke off")
    }

    pub(super) fn body_timeout() -> Self {
        let (status, code) = (StatusCode::REQUEST_TIMEOUT, "idempotency_body_timeout");
        Self::said(Cause::Body, status, code, "the body took too long")
    }

    pub(super) fn full(full: Full) -> Self {
        let (cause, code, detail) = match full {
            Full::Total => (Cause::Waiters, "idempotency_waiters", "too many requests wait"),
            Full::PerKey => (
                Cause::WaitersPerKey,
                "idempotency_waiters_per_key",
                "too many requests with this key wait",
            ),
            Full::PerScope => (
                Cause::WaitersPerScope,
                "idempotency_waiters_per_scope",
                "too many requests of this client wait",
            ),
            Full::Bytes => (
                Cause::WaitingBytes,
                "idempotency_waiting_bytes",
                "the requests that wait are too large together",
            ),
        };
        Self::said(cause, StatusCode::TOO_MANY_REQUESTS, code, detail).come_back(Duration::ZERO)
    }

    pub(super) fn in_flight(age: Duration) -> Self {
        let detail = "a request with this key is being worked on";
        let refusal =
            Self::said(Cause::InFlight, StatusCode::CONFLICT, "idempotency_in_flight", detail);
        // A request that has run for a while goes on for about as long.
        Self { age: Some(age), ..refusal.come_back(age.min(IN_FLIGHT_RETRY_MAX)) }
    }

    pub(super) fn mismatch() -> Self {
        let detail = "this key was used for another request";
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Self::said(Cause::Mismatch, status, "idempotency_key_reused", detail)
    }

    pub(super) fn complete_without_payload() -> Self {
        let detail = "this request has run, and its response was not kept";
        let code = "idempotency_response_not_stored";
        Self::said(Cause::WithoutPayload, StatusCode::CONFLICT, code, detail)
            .with(Reply::failed_precondition)
    }

    pub(super) fn unknown(age: Duration) -> Self {
        let detail = "this request has begun before, and it is not known how it ended";
        let code = "idempotency_outcome_unknown";
        let refusal = Self::said(Cause::Unknown, StatusCode::CONFLICT, code, detail);
        Self { age: Some(age), ..refusal.with(Reply::failed_precondition) }
    }

    pub(super) fn lost() -> Self {
        let detail = "the hold on this request was lost while it ran; come back for how it ended";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let refusal = Self::said(Cause::Lost, status, "idempotency_lost", detail);
        refusal.come_back(Duration::ZERO).with(Reply::cut)
    }

    pub(super) fn not_committed() -> Self {
        Self::undone("what this request has done was rolled back; it may be sent again")
    }

    fn undone(detail: &'static str) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let refusal = Self::said(Cause::Undone, status, "idempotency_not_committed", detail);
        refusal.come_back(Duration::ZERO).in_part()
    }

    /// Some of its work was stopped in the middle: what becomes of a retry is for `on_unknown`.
    pub(super) fn undone_in_part() -> Self {
        Self::undone(
            "this request was stopped in the middle, and what it has written was rolled back; come \
             back for how it ended",
        )
    }

    pub(super) fn commit_unknown() -> Self {
        let detail = "the database did not say whether this was committed; come back for how it \
                      ended";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let refusal = Self::said(Cause::Unavailable, status, "idempotency_unavailable", detail);
        refusal.come_back(Duration::ZERO).in_part()
    }

    pub(super) fn panicked() -> Self {
        let (status, code) = (StatusCode::INTERNAL_SERVER_ERROR, "idempotency_handler_panicked");
        Self::said(Cause::Panicked, status, code, "the request could not be worked on").in_part()
    }

    pub(super) fn unreadable() -> Self {
        let (status, code) = (StatusCode::INTERNAL_SERVER_ERROR, "idempotency_record_unreadable");
        let detail = "this request has run, and what is stored of it cannot be read";
        Self::said(Cause::Record, status, code, detail)
    }

    pub(super) fn of_begin(error: &'a BeginError) -> Self {
        use StatusCode as S;
        let new = Self::said;
        let refusal = match error {
            BeginError::Records { fault, .. } if fault.kind() == FaultKind::ForeignValue => {
                Self::unreadable()
            }
            BeginError::Lock(error) if error.is_closed() => Self::shut_down(),
            BeginError::Lock(AcquireError::Overloaded(error)) => {
                let (code, detail) = ("idempotency_overloaded", "too many requests wait");
                new(Cause::Overloaded, S::TOO_MANY_REQUESTS, code, detail)
                    .come_back(error.estimated_wait().unwrap_or_default())
            }
            error if error.is_unavailable() => {
                let code = "idempotency_unavailable";
                let detail = "it cannot be said whether this request has run before";
                let refusal = new(Cause::Unavailable, S::SERVICE_UNAVAILABLE, code, detail);
                if error.is_retryable() { refusal.come_back(Duration::ZERO) } else { refusal }
            }
            _ => Self::misconfigured(),
        };
        match refusal.cause {
            Cause::Misconfigured | Cause::Record => tracing::error!(%error, "{}", refusal.detail()),
            _ => tracing::warn!(%error, "a request could not begin"),
        }
        Self { error: Some(error), ..refusal }
    }

    pub(super) fn misconfigured() -> Self {
        let (status, code) = (StatusCode::INTERNAL_SERVER_ERROR, "idempotency_misconfigured");
        let detail = "the idempotency layer is set up wrongly";
        Self::said(Cause::Misconfigured, status, code, detail)
    }

    pub(super) fn shut_down() -> Self {
        let (status, code) = (StatusCode::SERVICE_UNAVAILABLE, "idempotency_closed");
        let detail = "this server is shutting down";
        Self::said(Cause::Closed, status, code, detail).come_back(Duration::ZERO)
    }

    /// The task of a handler that had begun was dropped.
    pub(super) fn dropped() -> Self {
        Self::shut_down().with(Reply::cut)
    }
}
