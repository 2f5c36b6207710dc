//! The handler under its execution: what it did becomes a record.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use http::{Method, Request, Response, StatusCode, header, response};
use http_body::Body;
use lock_core::scope::CutWatch;
use tower_service::Service;

use super::body::IdempotencyBody;
use super::capture::{Capture, Captured, Reading, capture};
use super::config::Config;
use super::ending::{Draft, until_lost};
use super::outcome::{Got, Left, Said};
use super::places::Place;
use super::refusal::Refusal;
use super::running::Running;
use super::{flow, streams};
use crate::answer::Wire;
use crate::{BoxError, OnLost};

/// The result of the handler.
enum Ran<R> {
    /// Nothing that a retry should be answered with.
    NotStored(Response<R>, Got),
    /// A response without an end in sight, or of which nobody said whether it is to be stored, or that
    /// is not to be and has a transaction: a retry is not answered with it, and runs nothing.
    Unkept(Response<R>),
    /// A response, as far as it fits its record.
    Read(response::Parts, Captured<R>),
    /// One that is not at its end, which nobody has announced.
    Flowing(response::Parts, Reading<R>),
}

impl<R> Ran<R> {
    fn said(&self) -> Said {
        match self {
            Self::NotStored(response, _) | Self::Unkept(response) => Said::by(response),
            Self::Read(head, _) | Self::Flowing(head, _) => Said::of(head.status, &head.headers),
        }
    }

    fn is_cut(&self) -> bool {
        matches!(self, Self::NotStored(_, Got::InPart))
    }
}

/// Runs the handler and answers its caller. As long as it runs, others of its record are
/// duplicates by its `place`.
///
/// # Cancel safety
///
/// When this is dropped, the handler is dropped before its execution, which is given up then.
pub(super) async fn run<S, Q, R>(
    config: Arc<Config>,
    running: Running,
    place: Place,
    service: S,
    request: Request<Q>,
) -> Result<Response<IdempotencyBody<R>>, S::Error>
where
    S: Service<Request<Q>, Response = Response<R>>,
    R: Body + Send + 'static,
    R::Error: Into<BoxError>,
{
    let wire = Wire::of(request.headers());
    let answer = |refusal| config.answers.answer(wire, refusal).map(IdempotencyBody::answer);
    let lost = (config.on_lost == OnLost::Cancel).then(|| running.lost());
    // An answer that came of a cut is no outcome, whatever the handler made of it, unless it is one
    // that is stored.
    let watch = CutWatch::new();
    let unsaid = || if watch.has_seen_one() { Got::InPart } else { Got::Unsaid };
    // Everything that is not ours to trust: the handler and its body.
    let work = watch.scope(work(&config, &watch, service, request));
    let work = AssertUnwindSafe(work).catch_unwind();
    let Some(outcome) = until_lost(work, lost).await else {
        tracing::warn!("a handler was stopped, as it had lost its lock");
        CutWatch::tell();
        running.let_go(Got::InPart).await;
        return Ok(answer(Refusal::lost()));
    };
    let Ok(outcome) = outcome else {
        tracing::error!("a handler panicked");
        running.let_go(unsaid()).await;
        return Ok(answer(Refusal::panicked()));
    };
    let ran = match outcome {
        Ok(ran) => ran,
        Err(error) => {
            running.let_go(unsaid()).await;
            return Err(error);
        }
    };
    let (was_cut, has_transaction) =
        (watch.has_seen_one() || ran.is_cut(), running.has_transaction());
    if was_cut && has_transaction && ran.said() == Said::Done {
        // Half of it would be committed: whatever was answered for it, it did not come to its end.
        tracing::warn!("a handler was stopped in its transaction, which is rolled back");
        running.let_go(Got::InPart).await;
        return Ok(answer(Refusal::undone_in_part()));
    }
    let ran = match ran {
        // What it has written in its transaction is committed with a response that is no error.
        Ran::NotStored(response, _) if has_transaction && Said::by(&response) == Said::Done => {
            Ran::Unkept(response)
        }
        ran => ran,
    };
    let draft = |head: &response::Parts| Draft::new(&config, head, watch.clone());
    let (left, response) = match ran {
        Ran::NotStored(response, got) => {
            running.let_go(got).await;
            return Ok(response.map(IdempotencyBody::untouched));
        }
        Ran::Unkept(response) => {
            let said = Said::by(&response);
            let left = running.complete_without_payload(said).await;
            (left, response.map(IdempotencyBody::untouched))
        }
        // A body may flow for long, and a transaction that is open holds up others.
        Ran::Flowing(head, reading) if running.has_transaction() => {
            let data = reading.so_far();
            let captured = Captured::Beyond { data, rest: reading.into_rest() };
            settle(draft(&head), running, head, captured).await
        }
        Ran::Flowing(head, reading) => {
            return Ok(flow::begin(&config, draft(&head), running, place, head, reading));
        }
        Ran::Read(head, captured) => settle(draft(&head), running, head, captured).await,
    };
    Ok(match left {
        Left::Written => response,
        Left::Stale => answer(Refusal::lost()),
        Left::Undone => answer(Refusal::not_committed()),
        Left::Unknown => answer(Refusal::commit_unknown()),
    })
}

async fn work<S, Q, R>(
    config: &Config,
    watch: &CutWatch,
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
    // Before anything looks at the status, which is not the handler's.
    if let Some(got) = Got::told(&response) {
        // That the last try of several did not begin says nothing of one before it.
        let got = if watch.has_seen_one() { Got::InPart } else { got };
        return Ok(Ran::NotStored(response, got));
    }
    // Whatever the predicate says: what runs on a connection of its own cannot be run again.
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(Ran::Unkept(response));
    }
    let (head, body) = response.into_parts();
    // Apart from the handler, which has done its work and must not run again for this.
    match catch_unwind(AssertUnwindSafe(|| config.stores.takes(&head))) {
        Ok(true) => {}
        Ok(false) => {
            let cut = watch.has_seen_one();
            let got = if cut { Got::InPart } else { Got::of_head(&head) };
            return Ok(Ran::NotStored(Response::from_parts(head, body), got));
        }
        Err(_) => {
            tracing::error!(
                "`store_if` panicked; the response is not stored, and a retry does not run"
            );
            return Ok(Ran::Unkept(Response::from_parts(head, body)));
        }
    }
    if streams::is_declared(&head.headers) {
        return Ok(Ran::Unkept(Response::from_parts(head, body)));
    }
    let announced = head.headers.contains_key(header::CONTENT_LENGTH);
    let (bytes_max, wait) = (config.response_bytes_max, config.response_wait);
    let captured = match capture(body, announced, bytes_max, wait).await {
        Capture::Done(captured) => captured,
        Capture::Flowing(reading) => return Ok(Ran::Flowing(head, reading)),
    };
    // An answer to HEAD, 204 and 304 tell the length of a body that they do not have.
    let has_body =
        !to_head && !matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let captured = if has_body { captured.of_length(&head.headers) } else { captured };
    Ok(Ran::Read(head, captured))
}

/// Writes the record, then gives the response: a client that has seen it meets it again.
async fn settle<R>(
    draft: Draft,
    running: Running,
    head: response::Parts,
    captured: Captured<R>,
) -> (Left, Response<IdempotencyBody<R>>) {
    let said = draft.said();
    let (left, body) = match captured {
        Captured::Whole { data, trailers } => {
            let left = draft.keep(running, data.clone(), trailers.as_ref()).await;
            (left, IdempotencyBody::whole(data, trailers))
        }
        Captured::Beyond { data, rest } => {
            (running.complete_without_payload(said).await, IdempotencyBody::begun(data, rest))
        }
        // It said that it had done its work before its body broke, so it is not run again.
        Captured::Broken { data, error } => {
            (running.complete_without_payload(said).await, IdempotencyBody::broken(data, error))
        }
    };
    (left, Response::from_parts(head, body))
}
