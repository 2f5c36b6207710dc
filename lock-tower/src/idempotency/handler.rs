//! The handler under its execution: what it did becomes a record.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;
use http::{Method, Request, Response, StatusCode, header, response};
use http_body::Body;
use lock_core::Lost;
use lock_core::idempotency::{CompleteError, Execution};
use tower_service::Service;

use super::body::IdempotencyBody;
use super::capture::{Captured, capture};
use super::config::Config;
use super::record::Stored;
use super::refusal::Refusal;
use crate::{BoxError, OnLost};

/// What came of the handler.
enum Ran<R> {
    /// Nothing that a retry should be answered with.
    NotStored(Response<R>),
    /// A response without an end in sight, or of which nobody said whether it is to be stored: a
    /// retry is not answered with it, and runs nothing.
    Unkept(Response<R>),
    /// A response, as far as it fits its record.
    Read(response::Parts, Captured<R>),
}

/// Whose outcome the record has.
enum Left {
    /// As it was to be; or in flight, where the store did not answer: the response is the
    /// caller's either way.
    Written,
    /// To a later execution, whose response is the one that all are given.
    Stale,
}

/// Runs the handler and answers its caller.
///
/// # Cancel safety
///
/// When this is dropped, the handler is dropped before its execution, which then aborts.
pub(super) async fn run<S, Q, R>(
    config: Arc<Config>,
    execution: Execution,
    service: S,
    request: Request<Q>,
) -> Result<Response<IdempotencyBody<R>>, S::Error>
where
    S: Service<Request<Q>, Response = Response<R>>,
    R: Body,
    R::Error: Into<BoxError>,
{
    let lost = (config.on_lost == OnLost::Cancel).then(|| execution.lost());
    // Everything that is not ours to trust: the handler and its body.
    let work = AssertUnwindSafe(work(&config, service, request)).catch_unwind();
    let Some(outcome) = until_lost(work, lost).await else {
        tracing::warn!("a handler was stopped, as it had lost its lock");
        // It was cut in the middle: nobody knows what it has done.
        execution.leave();
        return Ok(config.answer(&Refusal::lost()));
    };
    let Ok(outcome) = outcome else {
        tracing::error!("a handler panicked; a retry runs it again");
        abort(execution).await;
        return Ok(config.answer(&Refusal::panicked()));
    };
    let ran = match outcome {
        Ok(ran) => ran,
        Err(error) => {
            abort(execution).await;
            return Err(error);
        }
    };
    let (left, response) = match ran {
        Ran::NotStored(response) => {
            abort(execution).await;
            return Ok(response.map(IdempotencyBody::untouched));
        }
        Ran::Unkept(response) => {
            (tombstone(execution).await, response.map(IdempotencyBody::untouched))
        }
        Ran::Read(head, captured) => settle(&config, execution, head, captured).await,
    };
    Ok(match left {
        Left::Written => response,
        Left::Stale => config.answer(&Refusal::lost()),
    })
}

async fn work<S, Q, R>(
    config: &Config,
    mut service: S,
    request: Request<Q>,
) -> Result<Ran<R>, S::Error>
where
    S: Service<Request<Q>, Response = Response<R>>,
    R: Body,
    R::Error: Into<BoxError>,
{
    let to_head = request.method() == Method::HEAD;
    let response = service.call(request).await?;
    // Whatever the predicate says: what runs on a connection of its own cannot be run again.
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(Ran::Unkept(response));
    }
    let (head, body) = response.into_parts();
    // Apart from the handler, which has done its work and must not run again for this.
    match catch_unwind(AssertUnwindSafe(|| (config.stores)(&head))) {
        Ok(true) => {}
        Ok(false) => return Ok(Ran::NotStored(Response::from_parts(head, body))),
        Err(_) => {
            tracing::error!(
                "`store_if` panicked; the response is not stored, and a retry does not run"
            );
            return Ok(Ran::Unkept(Response::from_parts(head, body)));
        }
    }
    if is_event_stream(&head) {
        return Ok(Ran::Unkept(Response::from_parts(head, body)));
    }
    let captured = capture(body, config.response_bytes_max, config.response_wait).await;
    // An answer to HEAD, 204 and 304 tell the length of a body that they do not have.
    let has_body =
        !to_head && !matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let captured = if has_body { captured.of_length(&head.headers) } else { captured };
    Ok(Ran::Read(head, captured))
}

fn is_event_stream(head: &response::Parts) -> bool {
    let content_type = head.headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    let essence = content_type.and_then(|value| value.split(|byte| *byte == b';').next());
    essence.is_some_and(|it| it.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
}

/// `None` when the lock was lost before the work was done.
async fn until_lost<F: Future>(work: F, mut lost: Option<Lost>) -> Option<F::Output> {
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

impl Left {
    fn of(written: Result<(), CompleteError>) -> Self {
        match written {
            Err(error) if error.is_stale() => Self::Stale,
            // Logged by the engine; the handler has done its work all the same.
            Ok(()) | Err(_) => Self::Written,
        }
    }
}

async fn tombstone(execution: Execution) -> Left {
    Left::of(execution.tombstone().await)
}

/// Waits for it, so that a retry that comes after the answer runs at once.
async fn abort(execution: Execution) {
    // Where the record stays, the retry finds an execution without an outcome.
    drop(execution.abort().await);
}

/// Writes the record, then gives the response: a client that has seen it meets it again.
async fn settle<R>(
    config: &Config,
    execution: Execution,
    head: response::Parts,
    captured: Captured<R>,
) -> (Left, Response<IdempotencyBody<R>>) {
    let (left, body) = match captured {
        Captured::Whole { data, trailers } => {
            let kept = trailers.as_ref().map(|trailers| config.replayed.of(trailers));
            let stored = Stored {
                status: head.status,
                headers: config.replayed.of(&head.headers),
                trailers: kept.filter(|trailers| !trailers.is_empty()),
                body: data.clone(),
            };
            let left = match stored.encode() {
                Ok(record) => Left::of(execution.complete(record).await),
                Err(_) => tombstone(execution).await,
            };
            (left, IdempotencyBody::whole(data, trailers))
        }
        Captured::Beyond { data, rest } => {
            (tombstone(execution).await, IdempotencyBody::begun(data, rest))
        }
        // It said that it had done its work before its body broke, so it is not run again.
        Captured::Broken { data, error } => {
            (tombstone(execution).await, IdempotencyBody::broken(data, error))
        }
    };
    (left, Response::from_parts(head, body))
}
