//! The wait for the lock: single tries of lock-core, and retries that the budget pays for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lock_core::{Acquire, AcquireError, Key, LockGuard};
use tokio::time::Sleep;
use tower::retry::budget::Budget;

use super::arrival::Place;
use super::config::Config;
use crate::{clock, observe};

/// The pause before the first retry, before its jitter.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// No pause is longer.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A request in line.
///
/// The retries are counted here and not by lock-core, because each is to be paid from the budget
/// at the moment that it is needed.
pub(super) struct Waiting {
    config: Arc<Config>,
    key: Key,
    watched: observe::Wait,
    tries: u32,
    step: Step,
    // Given up with this future, which ends at the grant.
    _place: Place,
}

#[allow(clippy::large_enum_variant, reason = "the large one is the usual one")]
enum Step {
    // ## Trying => (Pausing | the end)
    Trying(Acquire),
    // ## Pausing => Trying
    Pausing(Pin<Box<Sleep>>),
}

/// Why there is no guard, with what it took.
pub(super) struct GaveUp {
    pub(super) error: AcquireError,
    pub(super) waited: Duration,
    pub(super) tries: u32,
}

impl Waiting {
    pub(super) fn new(config: Arc<Config>, key: Key, place: Place) -> Self {
        config.retry_budget.deposit();
        let step = Step::Trying(one_try(&config, &key));
        let watched = observe::Wait::begin(&key);
        Self { config, key, watched, tries: 1, step, _place: place }
    }

    fn may_retry(&self, error: &AcquireError) -> bool {
        let worth_it = error.is_timeout() || (error.is_unavailable() && error.is_retryable());
        worth_it && self.tries <= self.config.options.retries && self.config.retry_budget.withdraw()
    }
}

fn one_try(config: &Config, key: &Key) -> Acquire {
    let options = config.options;
    // Out of its bounds, the number goes along for lock-core to refuse it by name.
    let retries = if options.retries > lock_core::RETRIES_MAX { options.retries } else { 0 };
    config.locks.lock(key).options(options.with_retries(retries)).acquire()
}

/// Half of a bound that doubles, and the other half at random: clients that failed together do
/// not come back together.
fn pause(tries: u32, random: u32) -> Duration {
    let bound = PAUSE_FIRST.saturating_mul(1 << (tries - 1).min(8)).min(PAUSE_MAX);
    bound / 2 + (bound / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

impl Future for Waiting {
    type Output = Result<LockGuard, GaveUp>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            match &mut this.step {
                Step::Trying(acquire) => match ready!(Pin::new(acquire).poll(cx)) {
                    Ok(guard) => {
                        this.watched.granted(this.tries);
                        return Poll::Ready(Ok(guard));
                    }
                    Err(error) if this.may_retry(&error) => {
                        let pause = pause(this.tries, clock::random_bits());
                        this.step = Step::Pausing(Box::pin(tokio::time::sleep(pause)));
                    }
                    Err(error) => {
                        let waited = clock::now().saturating_duration_since(this.watched.since());
                        let tries = this.tries;
                        this.watched.refused(tries);
                        return Poll::Ready(Err(GaveUp { error, waited, tries }));
                    }
                },
                Step::Pausing(pause) => {
                    ready!(pause.as_mut().poll(cx));
                    this.tries += 1;
                    this.step = Step::Trying(one_try(&this.config, &this.key));
                }
            }
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("key", &self.key).field("tries", &self.tries).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_stay_between_half_their_bound_and_their_bound() {
        for (tries, bound_ms) in [(1, 50), (2, 100), (5, 800), (6, 1_000), (1_000, 1_000)] {
            let bound = Duration::from_millis(bound_ms);
            assert_eq!(pause(tries, 0), bound / 2);
            assert_eq!(pause(tries, u32::MAX), bound);
        }
    }
}
