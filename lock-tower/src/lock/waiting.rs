//! The wait for the lock: single tries of lock-core, and retries that the budget pays for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lock_core::{Acquire, AcquireError, DURATION_MAX, Key, LockGuard, LockOptions};
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
        let step = Step::Trying(one_try(&config, &key, Duration::ZERO));
        let watched = observe::Wait::begin(&key);
        Self { config, key, watched, tries: 1, step, _place: place }
    }

    fn waited(&self) -> Duration {
        clock::now().saturating_duration_since(self.watched.since())
    }

    /// The pause before another try, if there may be one.
    fn retry(&self, error: &AcquireError) -> Option<Duration> {
        let options = &self.config.options;
        let one_wait = one_wait(options);
        // Under admission a wait that ran out was that of all tries.
        let worth_it = (error.is_timeout() && !one_wait)
            || (error.is_unavailable() && error.is_retryable())
            || error.is_not_replicated();
        let pause = pause(self.tries, clock::random_bits());
        let in_time = !one_wait || self.waited() + pause < options.budget();
        let may = worth_it && in_time && self.tries <= options.retries;
        (may && self.config.retry_budget.withdraw()).then_some(pause)
    }
}

/// Whether all tries share one wait in one place of the line.
fn one_wait(options: &LockOptions) -> bool {
    options.admission && !options.wait.is_zero()
}

/// One try of lock-core, by a request that has waited for `waited`.
fn one_try(config: &Config, key: &Key, waited: Duration) -> Acquire {
    let mut options = config.options;
    // Out of their bounds, the numbers go along for lock-core to refuse them by name.
    let good = options.retries <= lock_core::RETRIES_MAX && options.wait <= DURATION_MAX;
    if good {
        if one_wait(&options) {
            // Zero would be another kind of try.
            let left = options.budget().saturating_sub(waited).max(Duration::from_nanos(1));
            options.wait = left.min(DURATION_MAX);
        }
        options.retries = 0;
    }
    config.locks.lock(key).options(options).acquire()
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
                    Err(error) => match this.retry(&error) {
                        Some(pause) => {
                            this.step = Step::Pausing(Box::pin(tokio::time::sleep(pause)));
                        }
                        None => {
                            let (waited, tries) = (this.waited(), this.tries);
                            this.watched.refused(tries);
                            return Poll::Ready(Err(GaveUp { error, waited, tries }));
                        }
                    },
                },
                Step::Pausing(pause) => {
                    ready!(pause.as_mut().poll(cx));
                    this.tries += 1;
                    this.step = Step::Trying(one_try(&this.config, &this.key, this.waited()));
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
