//! A response of which nobody has said how long it is: its caller has each piece as it comes, its
//! end only once it is on record.

use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;
use http::{Response, response};
use http_body::Body;
use tokio::time::timeout_at;

use super::body::IdempotencyBody;
use super::capture::{Reading, Stop};
use super::config::{Config, OnDisconnect};
use super::ending::{Draft, until_lost};
use super::outcome::Left;
use super::passage::{Inlet, Tail, passage};
use super::places::Place;
use super::running::Running;
use super::task;
use crate::{BoxError, OnLost};

/// All that the task has in hand. Fields drop in their order: what the handler owns is gone before
/// its execution.
struct Flow<R> {
    reading: Reading<R>,
    inlet: Inlet<R>,
    draft: Draft,
    running: Running,
    config: Arc<Config>,
    _place: Place,
}

/// Sends the head, and reads on in a task.
pub(super) fn begin<R>(
    config: &Arc<Config>,
    draft: Draft,
    running: Running,
    place: Place,
    head: response::Parts,
    reading: Reading<R>,
) -> Response<IdempotencyBody<R>>
where
    R: Body + Send + 'static,
    R::Error: Into<BoxError>,
{
    let (inlet, outlet) = passage();
    // The data that was there before anybody had to wait.
    let so_far = reading.so_far();
    if !so_far.is_empty() {
        inlet.pass(&so_far);
    }
    let config = Arc::clone(config);
    let flow = Flow { reading, inlet, draft, running, config, _place: place };
    // Dropped by a runtime that ends, it breaks the body.
    drop(task::spawn(flow.run()));
    Response::from_parts(head, IdempotencyBody::flowing(outlet))
}

impl<R> Flow<R>
where
    R: Body + Send + 'static,
    R::Error: Into<BoxError>,
{
    /// # Cancel safety
    ///
    /// Dropping it breaks the caller's body, and gives the execution up.
    async fn run(self) {
        // The binding that is made last is dropped first.
        let Self { _place, config, running, draft, inlet, mut reading } = self;
        let lost = (config.on_lost == OnLost::Cancel).then(|| running.lost());
        let until = reading.until;
        let read = draft.watch().scope(reading.read_on(|data| inlet.pass(data)));
        let read = AssertUnwindSafe(read).catch_unwind();
        let goes_with_caller = config.on_disconnect == OnDisconnect::Abort;
        let read = until_gone(timeout_at(until, read), &inlet, goes_with_caller);
        let tail = match until_lost(read, lost).await {
            None => {
                tracing::warn!("a response was cut, as its handler had lost its lock");
                drop(reading);
                running.leave();
                Tail::Broken("the hold on this request was lost".into())
            }
            // As the handler before its head: the execution is dropped without a word.
            Some(None) => return,
            Some(Some(Ok(Ok(Ok(Stop::End))))) => {
                let (data, trailers) = reading.into_whole();
                let left = draft.keep(running, data, trailers.as_ref()).await;
                left.or_broken(Tail::End(trailers))
            }
            Some(Some(Ok(Ok(Ok(Stop::Bound))) | Err(_))) => running
                .complete_without_payload(draft.said())
                .await
                .or_broken(Tail::Rest(reading.into_rest())),
            // The caller has its head, so it has said that its work was done.
            Some(Some(Ok(Ok(Err(error))))) => {
                running.complete_without_payload(draft.said()).await;
                Tail::Broken(error)
            }
            Some(Some(Ok(Err(_)))) => {
                tracing::error!("the body of a response panicked");
                running.complete_without_payload(draft.said()).await;
                Tail::Broken("the body panicked".into())
            }
        };
        inlet.end(tail);
    }
}

impl Left {
    fn or_broken<R>(self, tail: Tail<R>) -> Tail<R> {
        match self {
            Self::Written => tail,
            Self::Stale => Tail::Broken("a later request has taken over".into()),
            // No transaction is open while a body flows.
            Self::Undone | Self::Unknown => Tail::Broken("what was done is not kept".into()),
        }
    }
}

/// `None` when the caller has gone away before the work was done, and takes it along.
async fn until_gone<F: Future, R>(
    work: F,
    inlet: &Inlet<R>,
    with_caller: bool,
) -> Option<F::Output> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        if with_caller && inlet.poll_gone(cx).is_ready() {
            return Poll::Ready(None);
        }
        work.as_mut().poll(cx).map(Some)
    })
    .await
}
