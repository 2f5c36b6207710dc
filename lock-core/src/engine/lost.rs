//! Being told that a hold is over.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::cell::HoldView;
use super::clock;
use crate::error::LostError;
use crate::proto::Effects;

/// Resolves when a hold is over without a release; stays pending once it was released.
///
/// It reads the clock each time it is polled, so a task that was stopped past its lease learns of
/// it before anything else happens in a `select!` that polls this first.
///
/// # Cancel safety
///
/// Nothing is lost by dropping it; a later one resolves at once.
#[derive(Debug, Clone)]
#[must_use = "futures do nothing unless awaited"]
pub struct Lost {
    view: HoldView,
}

impl Lost {
    pub(crate) fn new(view: HoldView) -> Self {
        Self { view }
    }
}

impl Future for Lost {
    type Output = LostError;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LostError> {
        let HoldView { cell, token } = &self.view;
        let mut fx = Effects::none();
        let waker = Some(cx.waker().clone());
        let cause = cell.cohort().lost(*token, clock::now(), waker, Waker::will_wake, &mut fx);
        cell.apply(fx);
        match cause {
            Some(cause) => Poll::Ready(cell.why_lost(*token, cause)),
            None => Poll::Pending,
        }
    }
}
