//! The wait for the lock.

use std::fmt;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use lock_core::futures::Acquire;
use lock_core::{AcquireError, Key, LockGuard, LockOptions};

use super::config::Config;
use crate::permits::Permit;
use crate::{clock, observe};

/// A request that wants its lock. Each of its retries is paid from the budget at the moment that it
/// is needed.
pub(super) struct Waiting {
    acquire: Acquire,
    watched: observe::Wait,
    has_deposited: bool,
    // Given up with this, which ends at the grant.
    _permit: Permit,
}

/// Why there is no guard, with what it took.
pub(super) struct GaveUp {
    pub(super) error: AcquireError,
    pub(super) waited: Duration,
    pub(super) tries: u32,
}

impl Waiting {
    pub(super) fn new(config: &Config, key: Key, options: LockOptions, permit: Permit) -> Self {
        let watched = observe::Wait::begin(&key);
        let acquire = config.locks.lock(key).options(options);
        let acquire = acquire.waiters_max(config.waiters_per_key);
        let acquire = acquire.retry_while(config.retry_budget.pay()).acquire();
        Self { acquire, watched, has_deposited: false, _permit: permit }
    }

    pub(super) fn poll(
        &mut self,
        config: &Config,
        cx: &mut Context<'_>,
    ) -> Poll<Result<LockGuard, GaveUp>> {
        let polled = Pin::new(&mut self.acquire).poll(cx);
        let tries = self.acquire.tries();
        let result = match polled {
            // The line was full when it came. It has not waited, and pays nothing in.
            Poll::Ready(Err(error))
                if tries <= 1 && !self.has_deposited && is_line_full(&error) =>
            {
                self.watched.not_let_in();
                return Poll::Ready(Err(GaveUp { error, waited: Duration::ZERO, tries: 0 }));
            }
            // Tokio wants the task to let others run before it asks.
            Poll::Pending if tries == 0 => return Poll::Pending,
            polled => polled,
        };
        if !std::mem::replace(&mut self.has_deposited, true) {
            config.retry_budget.deposit();
        }
        result.map(|result| match result {
            Ok(guard) => {
                self.watched.granted(tries);
                Ok(guard)
            }
            Err(error) => {
                self.watched.refused(tries);
                let waited = clock::now().saturating_duration_since(self.watched.since());
                Err(GaveUp { error, waited, tries })
            }
        })
    }
}

fn is_line_full(error: &AcquireError) -> bool {
    matches!(error, AcquireError::Overloaded(error) if error.is_waiters_max())
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("acquire", &self.acquire).finish_non_exhaustive()
    }
}
