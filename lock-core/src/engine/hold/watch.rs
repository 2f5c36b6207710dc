//! Waiting for news of a hold.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use super::view::View;
use crate::engine::key::{KeyCell, KeyCohort, KeyEffects};
use crate::ground::clock;
use crate::proto::{Effects, Event};

/// A wait for one kind of news of one hold. Nothing is lost by dropping it: news stay, and
/// who asks later is told at once.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) view: View,
    news: Event,
    /// The number by which the cohort knows this, once it waits.
    watcher: Option<u64>,
}

impl Watch {
    pub(super) fn new(view: View, news: Event) -> Self {
        Self { view, news, watcher: None }
    }

    pub(super) fn cell(&self) -> &Arc<KeyCell> {
        &self.view.cell
    }

    /// Looks; where there is nothing to see, the task is woken when there is.
    pub(super) fn poll<T>(
        &mut self,
        cx: &Context<'_>,
        look: impl Fn(&mut KeyCohort, u64, Instant, &mut KeyEffects) -> Option<T>,
    ) -> Poll<T> {
        let View { cell, token } = &self.view;
        loop {
            let mut fx = Effects::none();
            let mut cohort = cell.cohort();
            let seen = look(&mut cohort, *token, clock::now(), &mut fx);
            let is_new = self.watcher.is_none();
            let before = match seen {
                Some(_) => None,
                None => cohort.watch(*token, self.news, &mut self.watcher, cx.waker().clone()),
            };
            drop(cohort);
            drop(before);
            cell.settle(fx);
            if let Some(seen) = seen {
                return Poll::Ready(seen);
            }
            if !(is_new && self.watcher.is_some() && cell.attend()) {
                return Poll::Pending;
            }
            // News that the store had pushed before are known now.
        }
    }
}

impl Clone for Watch {
    fn clone(&self) -> Self {
        Self::new(self.view.clone(), self.news)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher {
            let waker = self.view.cell.cohort().unwatch(self.view.token, watcher);
            drop(waker);
        }
    }
}
