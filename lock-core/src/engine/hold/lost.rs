//! Being told that a hold is over.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use super::view::View;
use super::watch::Watch;
use crate::engine::key::Timer;
use crate::error::LostError;
use crate::ground::clock;
use crate::proto::{Cohort, Event};

/// Resolves when a hold is over without a release; stays pending once it was released.
///
/// It reads the clock each time it is polled. So in a `select!` that polls this first, a task that
/// was stopped past its lease learns of that before anything else happens.
///
/// # Cancel safety
///
/// Nothing is lost by dropping it; a later one resolves at once.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Lost {
    watch: Watch,
    /// Where the conductor's timers do not serve.
    timer: Option<(Instant, Timer)>,
}

impl Lost {
    pub(super) fn new(view: View) -> Self {
        Self { watch: Watch::new(view, Event::Lost), timer: None }
    }

    /// Whether to look again, as the time of the hold has come by a timer of our own.
    fn is_due(&mut self, cx: &mut Context<'_>) -> bool {
        let View { cell, token } = &self.watch.view;
        if cell.shared.conductor.serves_here() {
            return false;
        }
        let until = cell.cohort().held_until(*token, clock::now());
        match (&self.timer, until) {
            (Some((at, _)), Some(until)) if *at == until => {}
            (_, Some(until)) => {
                self.timer = cell.shared.sleep_until(until).map(|timer| (until, timer));
            }
            (_, None) => self.timer = None,
        }
        self.timer.as_mut().is_some_and(|(_, timer)| Pin::new(timer).poll(cx).is_ready())
    }
}

impl Clone for Lost {
    fn clone(&self) -> Self {
        Self { watch: self.watch.clone(), timer: None }
    }
}

impl Future for Lost {
    type Output = LostError;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LostError> {
        let this = &mut *self;
        loop {
            if let Poll::Ready(cause) = this.watch.poll(cx, Cohort::lost) {
                return Poll::Ready(this.watch.cell().why_lost(this.watch.view.token, cause));
            }
            if !this.is_due(cx) {
                return Poll::Pending;
            }
        }
    }
}
