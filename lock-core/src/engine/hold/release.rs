//! Waiting for the end of a release.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::sync::oneshot;

use crate::engine::key::{Drives, KeyCell, RELEASE_WITHIN, Releaser, Timer, gone};
use crate::ground::{Plus as _, clock};
use crate::proto::ReleaseAnswer;

/// Polls the driver of the key until the withdrawal was answered. `None` if that takes too long: a
/// request that hangs, be it the withdrawal or one before it, must not hang the caller too.
///
/// When it is dropped, the withdrawal goes on.
pub(super) struct Releasing<'a> {
    cell: &'a Arc<KeyCell>,
    token: u64,
    /// When it began.
    since: Instant,
    answer: oneshot::Receiver<ReleaseAnswer>,
    /// The answer wakes the task.
    is_awaited: bool,
    /// Where the conductor's timers do not serve.
    timer: Option<Timer>,
}

impl<'a> Releasing<'a> {
    pub(super) fn new(
        cell: &'a Arc<KeyCell>,
        token: u64,
        now: Instant,
        answer: oneshot::Receiver<ReleaseAnswer>,
    ) -> Self {
        Self { cell, token, since: now, answer, is_awaited: false, timer: None }
    }

    fn look(&mut self, cx: &mut Context<'_>) -> Option<ReleaseAnswer> {
        match Pin::new(&mut self.answer).poll(cx) {
            Poll::Ready(answer) => {
                // Without an answer the driver is gone, and the withdrawal may have been sent.
                Some(answer.unwrap_or_else(|_| ReleaseAnswer::Unknown(gone())))
            }
            Poll::Pending => None,
        }
    }
}

impl Future for Releasing<'_> {
    type Output = Option<ReleaseAnswer>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let (token, until) = (this.token, this.since.plus(RELEASE_WITHIN));
            let mut releasing = this.cell.releasing();
            match releasing.iter_mut().find(|releaser| releaser.token == token) {
                Some(releaser) => releaser.waker.clone_from(cx.waker()),
                None => releasing.push(Releaser { token, waker: cx.waker().clone(), until }),
            }
            drop(releasing);
            // The answer that this very poll brings need not wake its task.
            let is_first = !mem::take(&mut this.is_awaited);
            if !is_first && let Some(answer) = this.look(&mut Context::from_waker(Waker::noop())) {
                return Poll::Ready(Some(answer));
            }
            this.cell.drive(Drives::Releaser, is_first.then_some(this.since));
            // From here on whoever else polls the driver wakes it with the answer.
            this.is_awaited = true;
            if let Some(answer) = this.look(cx) {
                return Poll::Ready(Some(answer));
            }
            if !is_first && clock::now() >= until {
                return Poll::Ready(None);
            }
            if this.timer.is_none() && !this.cell.shared.conductor.serves_here() {
                this.timer = this.cell.shared.sleep_until(until);
            }
            let timer = this.timer.as_mut().map(|timer| Pin::new(timer).poll(cx));
            if !this.cell.is_woken() && timer.is_none_or(|timer| timer.is_pending()) {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Releasing<'_> {
    fn drop(&mut self) {
        let mut releasing = self.cell.releasing();
        let mine = releasing.iter().position(|releaser| releaser.token == self.token);
        let mine = mine.map(|at| releasing.swap_remove(at));
        // A waker may do anything, so the mutex is not held over its end.
        drop(releasing);
        drop(mine);
        self.cell.nudge();
    }
}
