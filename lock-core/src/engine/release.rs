//! Waiting for the end of a release.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::oneshot;
use tokio::time::Sleep;

use super::cell::{KeyCell, Releaser};
use super::clock;
use super::leave::RELEASE_WITHIN;
use crate::proto::ReleaseAnswer;

/// Polls the driver of the key until the withdrawal was answered; `None` if that takes too long: a
/// request that hangs, be it the withdrawal or one before it, must not hang the caller too.
///
/// When it is dropped, the withdrawal goes on.
pub(super) struct Releasing<'a> {
    cell: &'a Arc<KeyCell>,
    token: u64,
    until: Instant,
    answer: oneshot::Receiver<ReleaseAnswer>,
    /// Where the conductor's timers do not serve.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'a> Releasing<'a> {
    pub(super) fn new(
        cell: &'a Arc<KeyCell>,
        token: u64,
        now: Instant,
        answer: oneshot::Receiver<ReleaseAnswer>,
    ) -> Self {
        Self { cell, token, until: now + RELEASE_WITHIN, answer, timer: None }
    }

    fn answer(&mut self) -> Option<ReleaseAnswer> {
        match self.answer.try_recv() {
            Ok(answer) => Some(answer),
            Err(oneshot::error::TryRecvError::Empty) => None,
            // Without an answer the driver is gone, and the hold with it.
            Err(oneshot::error::TryRecvError::Closed) => Some(ReleaseAnswer::NotHeld),
        }
    }
}

impl Future for Releasing<'_> {
    type Output = Option<ReleaseAnswer>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let (token, until) = (this.token, this.until);
            let mut releasing = this.cell.releasing();
            match &mut *releasing {
                Some(releaser) if releaser.token == token => releaser.waker.clone_from(cx.waker()),
                _ => *releasing = Some(Releaser { token, waker: cx.waker().clone(), until }),
            }
            drop(releasing);
            this.cell.drive(Some(cx.waker()));
            if let Some(answer) = this.answer() {
                return Poll::Ready(Some(answer));
            }
            if clock::now() >= until {
                return Poll::Ready(None);
            }
            if this.timer.is_none() && !this.cell.shared.conductor.serves_here() {
                this.timer = this.cell.shared.sleep_until(until);
            }
            let timer = this.timer.as_mut().map(|timer| timer.as_mut().poll(cx));
            if !this.cell.is_woken() && timer.is_none_or(|timer| timer.is_pending()) {
                // Whoever else polls the driver may send it.
                return match Pin::new(&mut this.answer).poll(cx) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(answer) => {
                        Poll::Ready(Some(answer.unwrap_or(ReleaseAnswer::NotHeld)))
                    }
                };
            }
        }
    }
}

impl Drop for Releasing<'_> {
    fn drop(&mut self) {
        let is_mine = |releaser: &mut Releaser| releaser.token == self.token;
        drop(self.cell.releasing().take_if(is_mine));
        self.cell.nudge();
    }
}
