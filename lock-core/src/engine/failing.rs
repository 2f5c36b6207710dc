//! Being told that a hold may be lost soon.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::cell::HoldView;
use super::watch::Watch;
use crate::error::UnavailableError;
use crate::proto::Event;

/// A renewal failed, and the hold is still good: it is lost when its time is over, unless one of
/// the next tries succeeds.
#[derive(Debug, Clone)]
pub struct RenewalFailure {
    pub(super) error: UnavailableError,
    pub(super) left: Duration,
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
/// does, look again with [`LockGuard::renewal_failure`](crate::LockGuard::renewal_failure).
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
    pub(crate) fn new(view: HoldView) -> Self {
        Self { watch: Watch::new(view, Event::RenewalFailing) }
    }
}

impl Future for RenewalFailing {
    type Output = RenewalFailure;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RenewalFailure> {
        let failing = self.watch.poll(cx, |cohort, token, now, _| cohort.failing(token, now));
        failing.map(|(fault, left)| self.watch.view.renewal_failure(fault, left))
    }
}
