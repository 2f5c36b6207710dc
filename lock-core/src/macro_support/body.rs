//! The body under its lock.
//!
//! In both futures the body is declared before the guards, and so is dropped before them: what the
//! body owns is gone when the next holder starts.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::Held;
use crate::LostError;

pin_project! {
    /// `on_lost = "cancel"`: runs the body until it is done or the lock is lost.
    ///
    /// The loss is asked for before the body is polled, so that a body that was stopped past its
    /// lease does nothing more; and once more when it is done, because its last stretch may have
    /// blocked past the lease.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Cancelled<H: Held, F> {
        #[pin]
        body: F,
        lost: H::Lost,
        held: H,
    }
}

impl<H: Held, F: Future> Cancelled<H, F> {
    /// Puts `body` under `held`.
    pub fn new(held: H, body: F) -> Self {
        Self { body, lost: held.lost(), held }
    }
}

impl<H: Held, F: Future> Future for Cancelled<H, F> {
    type Output = Result<F::Output, LostError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Poll::Ready(lost) = Pin::new(&mut this.lost).poll(cx) {
            return Poll::Ready(Err(lost));
        }
        let Poll::Ready(output) = this.body.poll(cx) else { return Poll::Pending };
        match Pin::new(&mut this.lost).poll(cx) {
            Poll::Ready(lost) => Poll::Ready(Err(lost)),
            Poll::Pending => Poll::Ready(Ok(output)),
        }
    }
}

pin_project! {
    /// `on_lost = "report"`: runs the body to its end, whatever happens to the lock.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct Reported<H, F> {
        #[pin]
        body: F,
        held: H,
    }
}

impl<H, F: Future> Reported<H, F> {
    /// Puts `body` under `held`.
    pub fn new(held: H, body: F) -> Self {
        Self { body, held }
    }
}

impl<H, F: Future> Future for Reported<H, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().body.poll(cx)
    }
}
