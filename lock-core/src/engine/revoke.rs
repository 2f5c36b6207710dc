//! Being asked to give the key up.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::cell::HoldView;
use crate::proto::News;

/// Resolves when somebody asks the holder to give the key up, at once if somebody has already;
/// stays pending once the hold is over, by a release or by a loss.
///
/// The hold stays as good as it was: it is a request, and what to do about it is up to the
/// holder.
///
/// # Cancel safety
///
/// Nothing is lost by dropping it; a later one resolves at once.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct RevokeRequested {
    view: HoldView,
    /// What the cohort knows this by, once it waits.
    watcher: Option<u64>,
}

impl RevokeRequested {
    pub(crate) fn new(view: HoldView) -> Self {
        Self { view, watcher: None }
    }
}

impl Clone for RevokeRequested {
    fn clone(&self) -> Self {
        Self::new(self.view.clone())
    }
}

impl Future for RevokeRequested {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let HoldView { cell, token } = &this.view;
        let is_new = this.watcher.is_none();
        let mut cohort = cell.cohort();
        if cohort.is_revoke_requested(*token) {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        this.watcher = cohort.watch(*token, News::RevokeRequested, this.watcher, waker);
        drop(cohort);
        if is_new {
            cell.attend(this.watcher);
            if cell.cohort().is_revoke_requested(*token) {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

impl Drop for RevokeRequested {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher {
            self.view.cell.cohort().unwatch(watcher);
        }
    }
}
