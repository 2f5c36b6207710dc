//! How the execution of a handler ends: with a record, with an outcome without payload, or without
//! either.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, response};
use lock_core::futures::MultiLost;
use lock_core::idempotency::CompleteError;
use lock_core::scope::HandlerRan;

use super::config::Config;
use super::headers::Replayed;
use super::record::Stored;
use super::running::{Running, Said};

/// How far the handler got whose response is not stored.
pub(super) enum Got {
    /// To an answer of its own, or it never began: a retry may run.
    Answered,
    /// To the middle, where it was stopped.
    InPart,
    /// What it came to looks like a cut: a layer between may have stopped it and answered for it.
    Unsaid,
}

/// Whose outcome the record has.
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

/// A response that is to be stored, before its body is there.
pub(super) struct Draft {
    status: StatusCode,
    headers: HeaderMap,
    replayed: Replayed,
    said: Said,
}

impl Got {
    /// What somebody who answered in the handler's place says.
    pub(super) fn told<R>(response: &Response<R>) -> Option<Self> {
        response.extensions().get::<HandlerRan>().map(|ran| match ran {
            HandlerRan::No => Self::Answered,
            _ => Self::InPart,
        })
    }

    /// Timeouts, load shedding and caught panics answer with these.
    pub(super) fn of_head(head: &response::Parts) -> Self {
        let looks_cut = match grpc_status(&head.headers) {
            // CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE
            Some(code) => matches!(code, 1 | 2 | 4 | 13 | 14),
            None => head.status.is_server_error() || head.status == StatusCode::REQUEST_TIMEOUT,
        };
        if looks_cut { Self::Unsaid } else { Self::Answered }
    }
}

/// What a response of gRPC says, where it says it in its head.
pub(super) fn grpc_status(headers: &HeaderMap) -> Option<u32> {
    headers.get("grpc-status")?.to_str().ok()?.parse().ok()
}

impl Left {
    pub(super) fn of(unwritten: &CompleteError) -> Self {
        // Else it is logged by the engine; the handler has done its work all the same.
        if unwritten.is_stale() { Self::Stale } else { Self::Written }
    }
}

impl Draft {
    pub(super) fn new(config: &Config, head: &response::Parts) -> Self {
        let replayed = config.replayed.clone();
        let said = Said::of(head.status, &head.headers);
        Self { status: head.status, headers: replayed.of(&head.headers), replayed, said }
    }

    /// Writes the record.
    pub(super) async fn keep(
        self,
        running: Running,
        body: Bytes,
        trailers: Option<&HeaderMap>,
    ) -> Left {
        let said = self.said();
        let Self { status, headers, replayed, .. } = self;
        let kept = trailers.map(|trailers| replayed.of(trailers));
        let trailers = kept.filter(|trailers| !trailers.is_empty());
        match (Stored { status, headers, trailers, body }).encode() {
            Ok(record) => running.complete(record, said).await,
            Err(_) => running.complete_without_payload(said).await,
        }
    }

    /// What its head says.
    pub(super) fn said(&self) -> Said {
        self.said
    }
}

/// `None` when the lock was lost before the work was done.
pub(super) async fn until_lost<F: Future>(
    work: F,
    mut lost: Option<MultiLost>,
) -> Option<F::Output> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        // First, so that a handler that lost its lock is not run one step further.
        if let Some(lost) = &mut lost
            && Pin::new(lost).poll(cx).is_ready()
        {
            return Poll::Ready(None);
        }
        work.as_mut().poll(cx).map(Some)
    })
    .await
}
