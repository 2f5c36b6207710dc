//! Being told that a hold may be lost soon.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::view::View;
use super::watch::Watch;
use crate::backend::Fault;
use crate::error::UnavailableError;
use crate::ground::clock;
use crate::proto::Event;

/// A renewal failed, and the hold is still good: it is lost when its time is over, unless one of
/// the next tries succeeds.
#[derive(Debug, Clone)]
pub struct RenewalFailure {
    error: UnavailableError,
    left: Duration,
}

impl RenewalFailure {
    /// Why the last try failed.
    #[must_use]
    pub fn error(&self) -> &UnavailableError {
        &self.error
    }

    /// How long the hold was good without a further renewal, when this was told.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.left
    }
}

/// Resolves when a renewal of the hold has failed and none has succeeded since, at once if that is
/// so already. Stays pending once the hold is over, by a release or by a loss.
///
/// The store is asked again at ninths of the lease, so the hold may well go on. To see whether it
/// does, look again: [`now`](Self::now).
///
/// # Cancel safety
///
/// Nothing is lost by dropping it; a later one resolves at once while renewals fail.
#[derive(Debug, Clone)]
#[must_use = "futures do nothing unless awaited"]
pub struct RenewalFailing {
    watch: Watch,
}

impl RenewalFailing {
    pub(super) fn new(view: View) -> Self {
        Self { watch: Watch::new(view, Event::RenewalFailing) }
    }

    /// Its answer now, without a wait: `None` unless the last renewal failed and the
    /// hold is good.
    #[must_use]
    pub fn now(&self) -> Option<RenewalFailure> {
        let View { cell, token } = &self.watch.view;
        let failing = cell.cohort().failing(*token, clock::now());
        failing.map(|(fault, left)| self.failure(fault, left))
    }

    fn failure(&self, fault: Fault, left: Duration) -> RenewalFailure {
        RenewalFailure { error: UnavailableError::new(self.watch.view.key().clone(), fault), left }
    }
}

impl Future for RenewalFailing {
    type Output = RenewalFailure;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RenewalFailure> {
        let failing = self.watch.poll(cx, |cohort, token, now, _| cohort.failing(token, now));
        failing.map(|(fault, left)| self.failure(fault, left))
    }
}
