//! The future that waits for several locks.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::super::ask::{Acquire, Plan, TRY_WITHIN, check};
use super::{KeySet, MultiLockGuard};
use crate::backend::{DURATION_MAX, Fault, FaultKind};
use crate::engine::key::Timer;
use crate::error::{AcquireError, LostError, UnavailableError};
use crate::ground::{Plus as _, clock, retry_pause};
use crate::key::Key;
use crate::options::LockOptions;
use crate::rejection::Rejection;

/// Waits for several locks; made by [`LockBuilder::acquire`](crate::LockBuilder::acquire).
///
/// # Cancel safety
///
/// Dropping it leaves the line that it stands in, and gives up in the background what it has taken
/// by then, the last key first.
#[must_use = "futures do nothing unless awaited"]
pub struct MultiAcquire {
    acquiring: Pin<Box<Acquiring>>,
}

type Acquiring = dyn Future<Output = Result<MultiLockGuard, AcquireError>> + Send + Sync;

impl MultiAcquire {
    pub(crate) fn new(plan: Plan, keys: KeySet) -> Self {
        Self { acquiring: Box::pin(acquire(plan, keys)) }
    }
}

impl Future for MultiAcquire {
    type Output = Result<MultiLockGuard, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.acquiring.as_mut().poll(cx)
    }
}

impl fmt::Debug for MultiAcquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiAcquire").finish_non_exhaustive()
    }
}

/// Tries to have all, until one try succeeds or there is to be no further one.
async fn acquire(plan: Plan, keys: KeySet) -> Result<MultiLockGuard, AcquireError> {
    let keys = keys.0?;
    for key in &keys {
        plan.shared.capabilities.check_key(key).map_err(Rejection::from)?;
    }
    if let Some(first) = keys.first() {
        check(&plan.options, first, &plan.shared.capabilities)?;
        let given = plan.options.min_hold;
        if !given.is_zero() {
            // A key that was had before another could not be would rest, though nothing has run.
            let (key, option) = (first.clone(), "min_hold of several keys");
            let (min, max) = (Duration::ZERO, Duration::ZERO);
            return Err(Rejection::OutOfBounds { key, option, given, min, max }.into());
        }
    }
    let mut tries = Tries { plan, started: clock::now(), begun: 0 };
    loop {
        let until = tries.begin();
        // Whatever is in here is given up with it, the last key first.
        let mut held = MultiLockGuard::with_capacity(keys.len());
        let Err(error) = tries.take(&keys, until, &mut held).await else { return Ok(held) };
        tries.give_up(held).await;
        match tries.pause(&error) {
            Some(pause) => pause.await,
            None => return Err(tries.failed(error)),
        }
    }
}

/// The tries of one acquire: each is for all keys, and all of them are within one budget.
struct Tries {
    plan: Plan,
    started: Instant,
    begun: u32,
}

impl Tries {
    fn queues(&self) -> bool {
        !self.plan.options.wait.is_zero()
    }

    /// All tries share one wait in one place of each line.
    fn has_admission(&self) -> bool {
        self.plan.options.admission && self.queues()
    }

    /// When the time for all tries, and the pauses between them, is over.
    fn end(&self) -> Instant {
        self.started.plus(if self.queues() { self.plan.options.budget() } else { TRY_WITHIN })
    }

    /// How long one try may wait.
    fn wait(&self) -> Duration {
        if self.has_admission() { self.plan.options.budget() } else { self.plan.options.wait }
    }

    /// One more try, until the end of which it is.
    fn begin(&mut self) -> Instant {
        self.begun += 1;
        let end = self.end();
        if self.queues() { end.min(clock::now().plus(self.wait())) } else { end }
    }

    /// Takes the keys in their order, each in what the ones before have left of the time.
    async fn take(
        &self,
        keys: &[Key],
        until: Instant,
        held: &mut MultiLockGuard,
    ) -> Result<(), AcquireError> {
        for (index, key) in keys.iter().enumerate() {
            let plan = self.plan_of(until, index + 1 == keys.len());
            let acquire = Acquire::new(plan, Ok(key.clone())).until(until);
            let guard = tokio::select! {
                biased;
                taken = acquire => taken?,
                // In vain to wait for the others.
                lost = held.lost() => return Err(lost_meanwhile(lost)),
            };
            held.push(guard);
        }
        held.why_lost().map_or(Ok(()), |lost| Err(lost_meanwhile(lost)))
    }

    /// The plan for one key. The tries are ours to make.
    fn plan_of(&self, until: Instant, is_last: bool) -> Plan {
        let mut plan = Plan { gate: None, ..self.plan.clone() };
        let options = &mut plan.options;
        *options = LockOptions { retries: 0, ..self.plan.options };
        // Admission measures the holds by this; the try ends when ours does.
        options.wait = self.wait().min(DURATION_MAX);
        // The limit of the guard of all begins with the last key. An earlier one, whose hold begins
        // now, must not be lost by its limit while the others are waited for.
        if !is_last {
            let left = until.saturating_duration_since(clock::now());
            options.hold_limit = options.hold_limit.map(|limit| (limit + left).min(DURATION_MAX));
        }
        plan
    }

    /// Has the store told before the caller is, as long as there is time for it. What is not
    /// answered by then goes on in the background.
    async fn give_up(&self, held: MultiLockGuard) {
        let Some(timer) = self.plan.shared.sleep_until(self.end()) else { return };
        tokio::select! {
            biased;
            // The caller is told why it has no locks, which is not this.
            _ = held.release() => {}
            () = timer => {}
        }
    }

    /// The pause before the next try, if there is to be one.
    fn pause(&self, why: &AcquireError) -> Option<Timer> {
        // A line that is full is refused for good, as it is for a single key.
        let is_worth_it = why.is_retryable() && !why.is_overloaded();
        if !is_worth_it || !self.queues() || self.begun > self.plan.options.retries {
            return None;
        }
        let now = clock::now();
        let left = self.end().saturating_duration_since(now);
        let pause = retry_pause(self.begun, left, clock::random_bits())?;
        if !self.plan.gate.as_ref().is_none_or(|gate| gate()) {
            return None;
        }
        self.plan.shared.sleep_until(now.plus(pause))
    }

    /// The error of the last try, as that of the whole.
    fn failed(&self, mut error: AcquireError) -> AcquireError {
        if let AcquireError::Timeout(timeout) = &mut error {
            timeout.wait = self.wait();
            timeout.waited = clock::now().saturating_duration_since(self.started);
            timeout.tries = self.begun;
        }
        error
    }
}

/// A hold was lost before all were there. No work has begun, so it may be tried again.
fn lost_meanwhile(lost: LostError) -> AcquireError {
    let key = lost.key().clone();
    let what = "it was lost while keys that are locked together with it were waited for";
    UnavailableError::new(key, Fault::new(FaultKind::Transient, what).with_source(lost)).into()
}
