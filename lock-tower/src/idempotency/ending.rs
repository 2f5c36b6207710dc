//! How the execution of a handler ends: with a record, with an outcome without payload, or without
//! either.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, response};
use lock_core::futures::MultiLost;

use super::config::Config;
use super::headers::Replayed;
use super::outcome::{Left, Said, grpc_status};
use super::record::Stored;
use super::running::Running;

/// A response that is to be stored, before its body is there.
pub(super) struct Draft {
    status: StatusCode,
    headers: HeaderMap,
    replayed: Replayed,
    said: Said,
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
        let fails = trailers.and_then(grpc_status).is_some_and(|code| code != 0);
        let said = if fails { Said::Failed } else { self.said() };
        let Self { status, headers, replayed, .. } = self;
        let kept = trailers.map(|trailers| replayed.of(trailers));
        let trailers = kept.filter(|trailers| !trailers.is_empty());
        match (Stored { status, headers, trailers, body }).encode() {
            Ok(record) => running.complete(record, said).await,
            Err(_) => running.complete_without_payload(said).await,
        }
    }

    /// The handler's word about its work, by the head of its response.
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
