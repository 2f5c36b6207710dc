//! The handler under its lock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Method, Response};
use http_body::Body;
use lock_core::error::LostError;
use lock_core::futures::Scoped;
use lock_core::scope::{CutWatch, LockScope};
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;
use tracing::Instrument;

use super::body::LockBody;
use super::config::{Config, HoldUntil};
use super::hold::{Hold, is_upgrade};
use crate::answer::{Refusal, Wire};

/// The facts from the head of the request, which the handler has.
pub(super) struct Asked {
    pub(super) wire: Wire,
    pub(super) method: Method,
}

pin_project! {
    /// Runs the inner future until it answers or, if so configured, the lock is lost.
    ///
    /// Fields drop in their order: what the handler owns is gone before the lock is given up.
    pub(super) struct Held<F> {
        #[pin]
        inner: Option<Scoped<F>>,
        hold: Option<Hold>,
        config: Arc<Config>,
        asked: Asked,
    }
}

impl<F: Future> Held<F> {
    pub(super) fn new(inner: F, hold: Hold, config: Arc<Config>, asked: Asked) -> Self {
        Self { inner: Some(hold.scope(inner)), hold: Some(hold), config, asked }
    }

    /// Runs it in a task that outlives the request.
    pub(super) fn detach(self) -> JoinHandle<<Self as Future>::Output>
    where
        Self: Future<Output: Send> + Send + 'static,
    {
        let held = self.in_current_span();
        // The scope that the request is called under goes along, for a lock or a watch outside of
        // this layer.
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
        let (inner, hold) = (this.inner.as_mut().as_pin_mut(), this.hold.as_mut());
        let (inner, hold) = inner.zip(hold).expect("polled again after it was ready");
        let result = ready!(hold.poll(cx, |_, cx| inner.poll(cx)));
        this.inner.set(None);
        let hold = this.hold.take();
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                drop(hold);
                CutWatch::tell();
                return Poll::Ready(Ok(answer_lost(this.config, this.asked.wire, &error)));
            }
        };
        if let Some(error) = hold.as_ref().and_then(|hold| hold.handle().why_lost()) {
            tracing::warn!(%error, "a handler finished after its lock was lost");
        }
        Poll::Ready(result.map(|response| match (this.config.hold_until, hold) {
            (HoldUntil::ResponseBody, Some(hold))
                if hold.is_left_behind() && is_upgrade(&this.asked.method, &response) =>
            {
                refuse_upgrade(this.config, this.asked.wire)
            }
            (HoldUntil::ResponseBody, Some(hold)) => {
                response.map(|body| LockBody::held(body, hold))
            }
            _ => response.map(LockBody::free),
        }))
    }
}

fn answer_lost<R>(config: &Config, wire: Wire, error: &LostError) -> Response<LockBody<R>> {
    tracing::warn!(%error, "a handler was stopped");
    config.answers.answer(wire, Refusal::of_lost(error)).map(LockBody::answer)
}

/// Nobody would hold the lock while the connection is open. Without its response no connection is
/// upgraded.
fn refuse_upgrade<R>(config: &Config, wire: Wire) -> Response<LockBody<R>> {
    tracing::error!(
        "an upgrade of a connection was refused, as its handler leaves the lock behind: take it \
         along with `UpgradeLock`, or choose `HoldUntil::ResponseHead`"
    );
    config.answers.answer(wire, Refusal::of_upgrade()).map(LockBody::answer)
}
