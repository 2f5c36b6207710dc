//! The end of a handler, as far as it is known: how far it got, what it says, and whose outcome the
//! record has.

use http::{HeaderMap, Response, StatusCode, response};
use lock_core::idempotency::CompleteError;
use lock_core::scope::HandlerRan;

/// How far the handler got whose response is not stored.
pub(super) enum Got {
    /// To an answer of its own, or it never began: a retry may run.
    Answered,
    /// To the middle, where it was stopped.
    InPart,
    /// To an answer that looks like a cut: a layer between may have stopped it and answered for it.
    Unsaid,
}

/// The execution whose outcome the record has.
pub(super) enum Left {
    /// As it was to be; or in flight, where the store did not answer: the response is the
    /// caller's either way.
    Written,
    /// To a later execution, whose response is the one that all are given.
    Stale,
    /// None: the transaction of the handler was rolled back, and a retry runs.
    #[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "there are none then"))]
    Undone,
    /// The transaction of the handler was committed with the record, or rolled back: the record
    /// tells the retry.
    #[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "there are none then"))]
    Unknown,
}

/// The handler's word about its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Done,
    /// An error, which may be stored all the same. What it has written in a transaction is not.
    Failed,
}

impl Said {
    pub(super) fn by<R>(response: &Response<R>) -> Self {
        Self::of(response.status(), response.headers())
    }

    pub(super) fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        let failed = status.is_client_error()
            || status.is_server_error()
            || grpc_status(headers).is_some_and(|code| code != 0);
        if failed { Self::Failed } else { Self::Done }
    }
}

impl Got {
    /// The word of somebody who answered in the handler's place.
    pub(super) fn told<R>(response: &Response<R>) -> Option<Self> {
        response.extensions().get::<HandlerRan>().map(|ran| match ran {
            HandlerRan::No => Self::Answered,
            _ => Self::InPart,
        })
    }

    /// Timeouts, load shedding and caught panics answer with these.
    pub(super) fn of_head(head: &response::Parts) -> Self {
        match grpc_status(&head.headers) {
            Some(code) => Self::of_grpc(code),
            None if head.status.is_server_error() => Self::Unsaid,
            None if head.status == StatusCode::REQUEST_TIMEOUT => Self::Unsaid,
            None => Self::Answered,
        }
    }

    /// The same of a status of gRPC.
    pub(super) fn of_grpc(code: u32) -> Self {
        // CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE
        if matches!(code, 1 | 2 | 4 | 13 | 14) { Self::Unsaid } else { Self::Answered }
    }
}

/// The status of a gRPC response that has it in its head.
pub(super) fn grpc_status(headers: &HeaderMap) -> Option<u32> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}

impl Left {
    pub(super) fn of(unwritten: &CompleteError) -> Self {
        // Else it is logged by the engine; the handler has done its work all the same.
        if unwritten.is_stale() { Self::Stale } else { Self::Written }
    }
}
