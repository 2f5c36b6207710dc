//! The body under its lock.
//!
//! In both futures the body is declared before the guards, and so is dropped before them: what the
//! body owns is gone when the next holder starts.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::Held;
use super::scope::InScope;
use crate::error::LostError;
use crate::scope::CutWatch;

pin_project! {
    /// `on_lost = "cancel"`: runs the body until it is done or the lock is lost.
    ///
    /// Each poll looks for the loss before it polls the body, so that a body that was stopped past
    /// its lease does nothing more. It looks once more when the body is done, because the last
    /// stretch may have blocked past the lease.
    #[must_use = "futures do nothing unless polled"]
    pub struct Cancelled<H: Held, F> {
        #[pin]
        body: InScope<F>,
        lost: H::Lost,
        held: H,
    }
}

impl<H: Held, F: Future> Cancelled<H, F> {
    /// Puts `body` under `held`.
    pub fn new(held: H, body: F) -> Self {
        Self { body: InScope::of(&held, body), lost: held.lost(), held }
    }
}

impl<H: Held, F: Future> Future for Cancelled<H, F> {
    type Output = Result<F::Output, LostError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let mut lost = |cx: &mut Context<'_>| Pin::new(&mut this.lost).poll(cx);
        let mut output = Poll::Pending;
        let mut cut = lost(cx);
        if cut.is_pending() {
            output = this.body.poll(cx);
            if output.is_ready() {
                cut = lost(cx);
            }
        }
        match cut {
            Poll::Ready(lost) => {
                CutWatch::tell();
                Poll::Ready(Err(lost))
            }
            Poll::Pending => output.map(Ok),
        }
    }
}

pin_project! {
    /// `on_lost = "report"`: runs the body to its end, whatever happens to the lock.
    #[must_use = "futures do nothing unless polled"]
    pub struct Reported<H, F> {
        #[pin]
        body: InScope<F>,
        held: H,
    }
}

impl<H: Held, F: Future> Reported<H, F> {
    /// Puts `body` under `held`.
    pub fn new(held: H, body: F) -> Self {
        Self { body: InScope::of(&held, body), held }
    }
}

impl<H, F: Future> Future for Reported<H, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().body.poll(cx)
    }
}
