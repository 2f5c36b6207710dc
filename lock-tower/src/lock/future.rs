//! The response future: key, wait, handler.

use std::fmt;
use std::future::Future;
use std::panic;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use lock_core::{FencingToken, LockHandle};
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;
use tower_service::Service;

use super::body::LockBody;
use super::config::Config;
use super::held::{Asked, Held};
use super::hold::Hold;
use super::waiting::{GaveUp, Waiting};
use crate::answer::{Refusal, Wire};
use crate::key::{Extracted, KeyExtractor};

pin_project! {
    /// The response future of a [`LockService`](crate::LockService).
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the line, or drops the handler and then gives the lock up; with
    /// [`detach_on_disconnect`](crate::LockLayer::detach_on_disconnect) a handler that has begun
    /// runs on.
    pub struct LockFuture<S, K, B, R>
    where
        S: Service<Request<K::Body>, Response = Response<R>>,
        K: KeyExtractor<B>,
    {
        #[pin]
        state: State<S, K, B, R>,
        // Ready since before the key was derived; taken by the one call.
        service: Option<S>,
        config: Arc<Config>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, K, B, R>
    where
        S: Service<Request<K::Body>, Response = Response<R>>,
        K: KeyExtractor<B>,
    {
        // ## Deriving => (Unlocked | Waiting | the end)
        Deriving { #[pin] key: K::Future },
        // ## Waiting => (Held | Detached | the end)
        Waiting { waiting: Waiting, request: Option<Request<K::Body>> },
        // ## Unlocked => the end
        Unlocked { #[pin] inner: S::Future },
        // ## Held => the end
        Held { #[pin] held: Held<S::Future> },
        // ## Detached => the end
        Detached { task: JoinHandle<Result<Response<LockBody<R>>, S::Error>>, wire: Wire },
    }
}

impl<S, K, B, R> LockFuture<S, K, B, R>
where
    S: Service<Request<K::Body>, Response = Response<R>>,
    K: KeyExtractor<B>,
{
    pub(super) fn new(service: S, key: K::Future, config: Arc<Config>) -> Self {
        Self { state: State::Deriving { key }, service: Some(service), config }
    }
}

impl<S, K, B, R> Future for LockFuture<S, K, B, R>
where
    S: Service<Request<K::Body>, Response = Response<R>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    R: Body + Send + 'static,
    K: KeyExtractor<B>,
{
    type Output = Result<Response<LockBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let config = &*this.config;
        loop {
            let next = match this.state.as_mut().project() {
                StateProj::Deriving { key } => match ready!(key.poll(cx)) {
                    Extracted::Lock(key, request) => match config.places.take(config.waiters) {
                        Some(permit) => {
                            let (options, request) = config.options_for(request);
                            let waiting = Waiting::new(config, key, options, permit);
                            State::Waiting { waiting, request: Some(request) }
                        }
                        None => {
                            let head = request.into_parts().0;
                            return refuse(config, &head, Refusal::crowded(&key));
                        }
                    },
                    Extracted::Skip(request) => {
                        State::Unlocked { inner: call(this.service, without_lock(request)) }
                    }
                    Extracted::Reject(reject, head) => {
                        return refuse(config, &head, Refusal::of_key(reject));
                    }
                },
                StateProj::Waiting { waiting, request } => {
                    let outcome = ready!(waiting.poll(config, cx));
                    let request = request.take().expect("kept until the wait is over");
                    match outcome {
                        Ok(guard) => {
                            let wire = Wire::of(request.headers());
                            let asked = Asked { wire, method: request.method().clone() };
                            let hold = Hold::new(guard, config);
                            let inner = call(this.service, with_lock(request, &hold));
                            let held = Held::new(inner, hold, Arc::clone(this.config), asked);
                            match config.detach {
                                true => State::Detached { task: held.detach(), wire },
                                false => State::Held { held },
                            }
                        }
                        Err(GaveUp { error, waited, tries }) => {
                            let head = request.into_parts().0;
                            let refusal = Refusal::of_acquire(&error);
                            return refuse(config, &head, Refusal { waited, tries, ..refusal });
                        }
                    }
                }
                StateProj::Unlocked { inner } => {
                    let result = ready!(inner.poll(cx));
                    return Poll::Ready(result.map(|response| response.map(LockBody::free)));
                }
                StateProj::Held { held } => return held.poll(cx),
                StateProj::Detached { task, wire } => {
                    return Poll::Ready(match ready!(Pin::new(task).poll(cx)) {
                        Ok(result) => result,
                        // A panic takes the way that it would have taken without the task.
                        Err(error) if error.is_panic() => panic::resume_unwind(error.into_panic()),
                        Err(_) => {
                            let answer = config.answers.answer(*wire, Refusal::of_shutdown());
                            Ok(answer.map(LockBody::answer))
                        }
                    });
                }
            };
            this.state.set(next);
        }
    }
}

fn call<S: Service<Q>, Q>(service: &mut Option<S>, request: Q) -> S::Future {
    service.take().expect("one request, one call").call(request)
}

fn with_lock<B>(mut request: Request<B>, hold: &Hold) -> Request<B> {
    let extensions = request.extensions_mut();
    extensions.insert(hold.handle());
    extensions.insert(hold.token());
    hold.offer(extensions);
    request
}

/// A layer around this one has left its own, which says nothing about this key: the handler would
/// take it for what it was promised. The outer layer holds its lock all the same.
fn without_lock<B>(mut request: Request<B>) -> Request<B> {
    let extensions = request.extensions_mut();
    extensions.remove::<LockHandle>();
    extensions.remove::<FencingToken>();
    request
}

fn refuse<R, E>(
    config: &Config,
    head: &Parts,
    refusal: Refusal<'_>,
) -> Poll<Result<Response<LockBody<R>>, E>> {
    Poll::Ready(Ok(config.answers.refuse(head, refusal).map(LockBody::answer)))
}

impl<S, K, B, R> fmt::Debug for LockFuture<S, K, B, R>
where
    S: Service<Request<K::Body>, Response = Response<R>>,
    K: KeyExtractor<B>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockFuture").finish_non_exhaustive()
    }
}
