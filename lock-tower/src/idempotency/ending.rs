//! How the execution of a handler ends: with a record, with an outcome without payload, or without
//! either.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, response};
use lock_core::futures::MultiLost;
use lock_core::scope::CutWatch;

use super::config::{Config, Stores};
use super::headers::Replayed;
use super::outcome::{Got, Left, Said, grpc_status};
use super::record::Stored;
use super::running::Running;

/// A response that is to be stored, before its body is there.
pub(super) struct Draft {
    status: StatusCode,
    headers: HeaderMap,
    replayed: Replayed,
    said: Said,
    stores: Stores,
    watch: CutWatch,
}

impl Draft {
    /// Its body is read under the `watch`, as the handler's work was done.
    pub(super) fn new(config: &Config, head: &response::Parts, watch: CutWatch) -> Self {
        let (replayed, stores) = (config.replayed.clone(), config.stores.clone());
        let said = Said::of(head.status, &head.headers);
        let headers = replayed.of(&head.headers);
        Self { status: head.status, headers, replayed, said, stores, watch }
    }

    /// Writes the record, if the response is one that is stored: an error of gRPC that comes without
    /// a message is as good in the trailers as in the head.
    pub(super) async fn keep(
        self,
        running: Running,
        body: Bytes,
        trailers: Option<&HeaderMap>,
    ) -> Left {
        let code = trailers.and_then(grpc_status);
        if let Some(code) = code.filter(|code| body.is_empty() && !self.stores.takes_status(*code))
        {
            let was_cut = self.watch.has_seen_one();
            running.let_go(if was_cut { Got::InPart } else { Got::of_grpc(code) }).await;
            return Left::Written;
        }
        let said = if code.is_some_and(|code| code != 0) { Said::Failed } else { self.said() };
        let Self { status, headers, replayed, .. } = self;
        let kept = trailers.map(|trailers| replayed.of(trailers));
        let trailers = kept.filter(|trailers| !trailers.is_empty());
        match (Stored { status, headers, trailers, body }).encode() {
            Ok(record) => running.complete(record, said).await,
            Err(_) => running.complete_without_payload(said).await,
        }
    }

    /// The watch of the work that the body is.
    pub(super) fn watch(&self) -> &CutWatch {
        &self.watch
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
