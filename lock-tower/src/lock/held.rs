//! The handler under its lock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Response;
use http_body::Body;
use lock_core::{CutWatch, LockGuard, LockScope, Lost, LostError, Scoped};
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;
use tracing::Instrument;

use super::body::LockBody;
use super::config::{Config, HoldUntil, OnLost};
use crate::answer::{Refusal, Wire};

pin_project! {
    /// Runs the inner future until it answers or, if so configured, the lock is lost.
    ///
    /// Fields drop in their order: what the handler owns is gone before the lock is given up.
    pub(super) struct Held<F> {
        #[pin]
        inner: Option<Scoped<F>>,
        guard: Option<LockGuard>,
        // None where a loss is only reported.
        lost: Option<Lost>,
        config: Arc<Config>,
        // What the head of the request, which the handler has, said.
        wire: Wire,
    }
}

impl<F: Future> Held<F> {
    pub(super) fn new(inner: F, guard: LockGuard, config: Arc<Config>, wire: Wire) -> Self {
        let inner = guard.scope(inner);
        let lost = (config.on_lost == OnLost::Cancel).then(|| guard.lost());
        Self { inner: Some(inner), guard: Some(guard), lost, config, wire }
    }

    /// Runs it in a task that outlives the request.
    pub(super) fn detach(self) -> JoinHandle<<Self as Future>::Output>
    where
        Self: Future<Output: Send> + Send + 'static,
    {
        let held = self.in_current_span();
        // What the request is called under goes along, for a lock or a watch outside of this layer.
        match LockScope::current() {
            Some(scope) => tokio::spawn(scope.run(held)),
            None => tokio::spawn(held),
        }
    }
}

impl<F, R, E> Future for Held<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
{
    type Output = Result<Response<LockBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        // First, so that a handler that lost its lock is not run one step further.
        if let Some(lost) = this.lost
            && let Poll::Ready(error) = Pin::new(lost).poll(cx)
        {
            this.inner.set(None);
            drop(this.guard.take());
            CutWatch::tell();
            return Poll::Ready(Ok(answer_lost(this.config, *this.wire, &error)));
        }
        let inner = this.inner.as_mut().as_pin_mut().expect("polled again after it was ready");
        let result = ready!(inner.poll(cx));
        this.inner.set(None);
        let guard = this.guard.take();
        let lost = this.lost.take();
        if let Some(error) = guard.as_ref().and_then(|guard| guard.handle().why_lost()) {
            tracing::warn!(%error, "a handler finished after its lock was lost");
        }
        Poll::Ready(result.map(|response| match (this.config.hold_until, guard) {
            (HoldUntil::ResponseBody, Some(guard)) => {
                response.map(|body| LockBody::held(body, guard, lost))
            }
            _ => response.map(LockBody::free),
        }))
    }
}

fn answer_lost<R>(config: &Config, wire: Wire, error: &LostError) -> Response<LockBody<R>> {
    tracing::warn!(%error, "a handler was stopped");
    config.answers.answer(wire, Refusal::of_lost(error)).map(LockBody::answer)
}
