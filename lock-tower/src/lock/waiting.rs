//! The wait for the lock.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lock_core::{Acquire, AcquireError, Key, LockGuard};

use super::arrival::Place;
use super::config::Config;
use crate::{clock, observe};

/// A request in line. Each of its retries is paid from the budget at the moment that it is needed.
pub(super) struct Waiting {
    acquire: Acquire,
    watched: observe::Wait,
    // Given up with this future, which ends at the grant.
    _place: Place,
}

/// Why there is no guard, with what it took.
pub(super) struct GaveUp {
    pub(super) error: AcquireError,
    pub(super) waited: Duration,
    pub(super) tries: u32,
}

impl Waiting {
    pub(super) fn new(config: &Config, key: Key, place: Place) -> Self {
        let pay = config.retry_budget.deposit();
        let watched = observe::Wait::begin(&key);
        let acquire = config.locks.lock(key).options(config.options).acquire();
        Self { acquire: acquire.retry_while(pay), watched, _place: place }
    }
}

impl Future for Waiting {
    type Output = Result<LockGuard, GaveUp>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let result = ready!(Pin::new(&mut this.acquire).poll(cx));
        let tries = this.acquire.tries();
        Poll::Ready(match result {
            Ok(guard) => {
                this.watched.granted(tries);
                Ok(guard)
            }
            Err(error) => {
                this.watched.refused(tries);
                let waited = clock::now().saturating_duration_since(this.watched.since());
                Err(GaveUp { error, waited, tries })
            }
        })
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("acquire", &self.acquire).finish_non_exhaustive()
    }
}
