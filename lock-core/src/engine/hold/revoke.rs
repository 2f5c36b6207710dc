//! Being asked to give the key up.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::view::View;
use super::watch::Watch;
use crate::proto::Event;

/// Resolves when somebody asks the holder to give the key up, at once if somebody has already.
/// Stays pending once the hold is over, by a release or by a loss.
///
/// The hold stays as good as it was: it is a request, and what to do about it is up to the
/// holder.
///
/// # Cancel safety
///
/// Nothing is lost by dropping it; a later one resolves at once.
#[derive(Debug, Clone)]
#[must_use = "futures do nothing unless awaited"]
pub struct RevokeRequested {
    watch: Watch,
}

impl RevokeRequested {
    pub(super) fn new(view: View) -> Self {
        Self { watch: Watch::new(view, Event::RevokeRequested) }
    }
}

impl Future for RevokeRequested {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.watch.poll(cx, |cohort, token, _, _| cohort.is_revoke_requested(token).then_some(()))
    }
}
