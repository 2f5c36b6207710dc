//! Being told that a hold is over.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::cell::HoldView;
use super::clock;
use crate::error::LostError;
use crate::proto::{Effects, News};

/// Resolves when a hold is over without a release; stays pending once it was released.
///
/// It reads the clock each time it is polled, so a task that was stopped past its lease learns of
/// it before anything else happens in a `select!` that polls this first.
///
/// # Cancel safety
///
/// Nothing is lost by dropping it; a later one resolves at once.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Lost {
    view: HoldView,
    /// What the cohort knows this by, once it waits.
    watcher: Option<u64>,
}

impl Lost {
    pub(crate) fn new(view: HoldView) -> Self {
        Self { view, watcher: None }
    }
}

impl Clone for Lost {
    fn clone(&self) -> Self {
        Self::new(self.view.clone())
    }
}

impl Future for Lost {
    type Output = LostError;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LostError> {
        let this = &mut *self;
        let HoldView { cell, token } = &this.view;
        let mut fx = Effects::none();
        let mut cohort = cell.cohort();
        let cause = cohort.lost(*token, clock::now(), &mut fx);
        if cause.is_none() {
            this.watcher = cohort.watch(*token, News::Lost, this.watcher, cx.waker().clone());
        }
        drop(cohort);
        cell.apply(fx);
        match cause {
            Some(cause) => Poll::Ready(cell.why_lost(*token, cause)),
            None => Poll::Pending,
        }
    }
}

impl Drop for Lost {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher {
            self.view.cell.cohort().unwatch(watcher);
        }
    }
}
