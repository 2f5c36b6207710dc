//! One request with a key, from its body to its response.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::Limited;
use lock_core::idempotency::{Begun, Scope};
use tokio::time::timeout;
use tower_service::Service;

use super::REPLAYED_HEADER;
use super::body::IdempotencyBody;
use super::cause::Cause;
use super::config::{Config, OnDisconnect, OnStoreDown};
use super::places::{Metered, NoRoom, Place};
use super::record::Stored;
use super::refusal::Refusal;
use super::running::{Running, without_any};
use super::{fingerprint, handler, task};
use crate::BoxError;
use crate::answer::Wire;
use crate::key::{BufferedBody, Whole, is_too_large};

/// A request that was let in.
pub(super) struct Exchange<S, B> {
    pub(super) config: Arc<Config>,
    /// Ready since before the request came.
    pub(super) service: S,
    pub(super) request: Request<B>,
    pub(super) scope: Scope,
    pub(super) key: Vec<u8>,
    pub(super) place: Place,
}

impl<S, B, R> Exchange<S, B>
where
    S: Service<Request<BufferedBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    R: Body + Send + 'static,
    R::Error: Into<BoxError>,
{
    /// Answers the request.
    ///
    /// # Cancel safety
    ///
    /// Dropped before the handler has begun, it leaves the line and nothing runs. After that the
    /// handler runs on, or is aborted, as [`OnDisconnect`] says.
    pub(super) async fn run(self) -> Result<Response<IdempotencyBody<R>>, S::Error> {
        let Self { config, mut service, request, scope, key, mut place } = self;
        let (head, body) = request.into_parts();
        let (body, data) = match read(body, &config, &mut place).await {
            Ok(read) => read,
            Err(refusal) => return Ok(refuse(&config, refusal, &head)),
        };
        let fingerprint = fingerprint::of_request(&head, &config.fingerprinted, &data);
        // The handler may be done with its body long before it ends.
        drop(data);
        let begun = config.engine.begin(&scope, &key, fingerprint).await;
        let refusal = match begun {
            Ok(Begun::Run(execution)) => {
                let mut head = head;
                let running = Running::new(execution, &mut head);
                place.begin();
                let request = Request::from_parts(head, body);
                return begin(config, running, place, service, request).await;
            }
            Ok(Begun::Replay(record)) => match replay(record) {
                Some(response) => return Ok(response),
                None => Refusal::unreadable(),
            },
            Ok(Begun::InFlight { age, .. }) => Refusal::in_flight(age),
            Ok(Begun::Mismatch) => Refusal::mismatch(),
            Ok(Begun::WithoutPayload) => Refusal::complete_without_payload(),
            Ok(Begun::Unknown { age, .. }) => Refusal::unknown(age),
            Ok(other) => {
                tracing::error!(?other, "an answer of the engine that this layer does not know");
                Refusal::misconfigured()
            }
            Err(error) => {
                let refusal = Refusal::of_begin(&error);
                let open = config.on_store_down == OnStoreDown::FailOpen;
                if open && refusal.cause() == Cause::Unavailable {
                    tracing::warn!(%error, "a request runs without protection");
                    drop(place);
                    let request = Request::from_parts(without_any(head), body);
                    return Ok(service.call(request).await?.map(IdempotencyBody::untouched));
                }
                return Ok(refuse(&config, refusal, &head));
            }
        };
        Ok(refuse(&config, refusal, &head))
    }
}

/// The body again, and its bytes.
async fn read<B>(
    body: B,
    config: &Config,
    place: &mut Place,
) -> Result<(BufferedBody<B>, Bytes), Refusal<'static>>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    let bytes_max = config.request_bytes_max;
    let announced = body.size_hint().lower();
    if usize::try_from(announced).map_or(true, |bytes| bytes > bytes_max) {
        return Err(Refusal::body_too_large(bytes_max));
    }
    // Its own bound comes first: a body that is too large for any place does not wait for one.
    let whole = Whole::of(Metered::new(Limited::new(body, bytes_max), place), usize::MAX);
    let error = match timeout(config.request_wait, whole).await {
        Ok(Ok(read)) => return Ok(BufferedBody::buffered(read)),
        Ok(Err(error)) => error,
        Err(_) => return Err(Refusal::body_timeout()),
    };
    Err(match error.downcast_ref() {
        Some(NoRoom(full)) => Refusal::full(*full),
        None if is_too_large(&*error) => Refusal::body_too_large(bytes_max),
        None => Refusal::body_incomplete(),
    })
}

/// Runs the handler here, or in a task that outlives this future.
async fn begin<S, B, R>(
    config: Arc<Config>,
    running: Running,
    place: Place,
    service: S,
    request: Request<BufferedBody<B>>,
) -> Result<Response<IdempotencyBody<R>>, S::Error>
where
    S: Service<Request<BufferedBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body + Send + 'static,
    R: Body + Send + 'static,
    R::Error: Into<BoxError>,
{
    let wire = Wire::of(request.headers());
    let run = handler::run(Arc::clone(&config), running, place, service, request);
    if config.on_disconnect == OnDisconnect::Abort {
        return run.await;
    }
    match task::spawn(run).await {
        Ok(result) => result,
        // A panic of the handler is caught before: this is one of the closures of the layer.
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Ok(config.answers.answer(wire, Refusal::dropped()).map(IdempotencyBody::answer)),
    }
}

/// The response of a record; `None` where it is none.
fn replay<R>(record: Bytes) -> Option<Response<IdempotencyBody<R>>> {
    let stored = match Stored::decode(record) {
        Ok(stored) => stored,
        Err(fault) => {
            tracing::error!(?fault, "a stored response cannot be read");
            return None;
        }
    };
    let mut response = Response::new(IdempotencyBody::whole(stored.body, stored.trailers));
    *response.status_mut() = stored.status;
    *response.headers_mut() = stored.headers;
    response.headers_mut().insert(REPLAYED_HEADER, HeaderValue::from_static("true"));
    Some(response)
}

fn refuse<R>(config: &Config, refusal: Refusal<'_>, head: &Parts) -> Response<IdempotencyBody<R>> {
    config.answers.refuse(head, refusal).map(IdempotencyBody::answer)
}
