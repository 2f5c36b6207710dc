//! The service.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use lock_core::idempotency::Scope;
use tower_service::Service;

use super::body::IdempotencyBody;
use super::config::Config;
use super::exchange::Exchange;
use super::future::IdempotencyFuture;
use super::key::{self, KeyFault};
use super::places::Place;
use super::refusal::Refusal;
use super::running::without_any;
use super::scope::HasScope;
use crate::BoxError;
use crate::key::BufferedBody;

/// Runs each request with an idempotency key once; made by
/// [`IdempotencyLayer`](crate::IdempotencyLayer).
///
/// It is ready when the inner service is, and a request takes that readiness along while it waits.
/// So an inner concurrency limit counts waiters too: put it outside. There it does not count
/// handlers whose client is gone, which run on; see
/// [`OnDisconnect::Finish`](super::OnDisconnect::Finish) for a bound on them.
#[derive(Debug, Clone)]
pub struct IdempotencyService<S> {
    inner: S,
    scope: HasScope,
    config: Arc<Config>,
}

/// The decision about a request, by its head.
enum Verdict<'a> {
    /// Its method is not looked at.
    Pass,
    /// It runs without a key, and with no token: that of a layer around this one would pass for that of
    /// the record.
    Keyless,
    Run {
        scope: Scope,
        key: Vec<u8>,
        place: Place,
    },
    Refuse(Refusal<'a>),
}

impl<S> IdempotencyService<S> {
    pub(super) fn new(inner: S, scope: HasScope, config: Arc<Config>) -> Self {
        Self { inner, scope, config }
    }
}

impl<S> IdempotencyService<S> {
    fn verdict(&self, head: &Parts) -> Verdict<'_> {
        let config = &*self.config;
        if !config.methods.contains(&head.method) {
            return Verdict::Pass;
        }
        let key = match key::of_request(&head.headers, &config.header) {
            Ok(key) => key.into_owned(),
            Err(KeyFault::Missing) if !config.required => return Verdict::Keyless,
            Err(fault) => return Verdict::Refuse(Refusal::of_key(fault, &config.header)),
        };
        let scope = match self.scope.of(head) {
            Ok(scope) => scope,
            Err(reject) => return Verdict::Refuse(Refusal::of_scope(reject)),
        };
        match config.places.enter(&config.engine, &scope, &key, config.bounds) {
            Ok(place) => Verdict::Run { scope, key, place },
            Err(full) => Verdict::Refuse(Refusal::full(full)),
        }
    }
}

impl<S, B, R> Service<Request<B>> for IdempotencyService<S>
where
    S: Service<Request<BufferedBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    R: Body + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<IdempotencyBody<R>>;
    type Error = S::Error;
    type Future = IdempotencyFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let next = self.inner.clone();
        // The clone was never polled ready; the one that was goes with the request.
        let mut service = mem::replace(&mut self.inner, next);
        let (head, body) = request.into_parts();
        let (scope, key, place) = match self.verdict(&head) {
            Verdict::Run { scope, key, place } => (scope, key, place),
            verdict @ (Verdict::Pass | Verdict::Keyless) => {
                let is_keyless = matches!(verdict, Verdict::Keyless);
                let head = if is_keyless { without_any(head) } else { head };
                let request = Request::from_parts(head, BufferedBody::untouched(body));
                return IdempotencyFuture::passed(service.call(request));
            }
            Verdict::Refuse(refusal) => {
                let answer = self.config.answers.refuse(&head, refusal);
                return IdempotencyFuture::refused(answer.map(IdempotencyBody::answer));
            }
        };
        let config = Arc::clone(&self.config);
        let request = Request::from_parts(head, body);
        let exchange = Exchange { config, service, request, scope, key, place };
        IdempotencyFuture::exchanged(exchange.run())
    }
}
