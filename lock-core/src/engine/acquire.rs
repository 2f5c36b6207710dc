//! The future that waits for a lock.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::time::Sleep;

use super::cell::{Hold, KeyCell};
use super::scope::LockScope;
use super::{Shared, clock, observe};
use crate::backend::Fault;
use crate::error::{
    AcquireError, BlockedBy, ClosedError, NotReplicatedError, OverloadBound, OverloadedError,
    TimeoutError, UnavailableError,
};
use crate::guard::LockGuard;
use crate::key::{Key, KeyError};
use crate::options::LockOptions;
use crate::proto::{Ask, Effects, Entry, Overload, RETRY_PAUSES, SeatId, Verdict};

/// What a try that must not wait is given for its one round trip.
pub(crate) const TRY_WITHIN: Duration = Duration::from_secs(2);

/// Waits for a lock; made by [`LockBuilder::acquire`](crate::LockBuilder::acquire).
///
/// # Cancel safety
///
/// Dropping it leaves the line. A grant that was made meanwhile is passed on, and the last waiter
/// of a process takes its place in the store's line with it.
#[must_use = "futures do nothing unless awaited"]
pub struct Acquire {
    shared: Arc<Shared>,
    key: Result<Key, KeyError>,
    options: LockOptions,
    started: Option<Instant>,
    /// The end of the one wait that all tries share under admission.
    deadline: Option<Instant>,
    tries: u32,
    state: State,
    watched: observe::Wait,
}

enum State {
    // ## Start => (Seated | Done)
    Start,
    // ## Seated => (Pausing | Done)
    Seated { cell: Arc<KeyCell>, seat: SeatId, deadline: Instant, timer: Option<Pin<Box<Sleep>>> },
    // ## Pausing => Start
    Pausing(Pin<Box<Sleep>>),
    Done,
}

impl Acquire {
    #[inline]
    pub(crate) fn new(
        shared: Arc<Shared>,
        key: Result<Key, KeyError>,
        options: LockOptions,
    ) -> Self {
        let (state, watched) = (State::Start, observe::Wait::new());
        Self { shared, key, options, started: None, deadline: None, tries: 0, state, watched }
    }

    fn ask(&self, now: Instant, deadline: Option<Instant>) -> Ask {
        let options = &self.options;
        let LockOptions {
            wait,
            lease,
            hold_limit,
            linger,
            fairness,
            admission,
            replicas,
            name,
            ..
        } = *options;
        let patient = !wait.is_zero();
        // A try that does not wait has nothing to be spared.
        let admission = admission && patient;
        let (handoffs_max, slice) = fairness.bounds();
        let budget = match (patient, admission) {
            (false, _) => TRY_WITHIN,
            (true, false) => wait,
            (true, true) => options.budget(),
        };
        let deadline = deadline.or(self.deadline).unwrap_or(now + budget);
        let replicas =
            replicas.map(|wanted| wanted.within(deadline.saturating_duration_since(now)));
        Ask {
            deadline,
            budget,
            admission,
            patient,
            lease,
            hold_limit,
            linger,
            handoffs_max,
            slice,
            replicas,
            name,
        }
    }

    /// Checks the input once, then enters the line, again with the same deadline if a grant came
    /// too late to be of use.
    fn start(
        &mut self,
        deadline: Option<Instant>,
        cx: &Context<'_>,
    ) -> Poll<Result<LockGuard, AcquireError>> {
        let key = match &self.key {
            Ok(key) => key.clone(),
            Err(error) => return Poll::Ready(Err(error.clone().into())),
        };
        let now = clock::now();
        if self.started.is_none() {
            self.options.check(&key, &self.shared.promises)?;
            if self.options.reentrant
                && let Some(hold) = LockScope::holds(&self.shared, &key)
            {
                return Poll::Ready(Ok(LockGuard::shared(hold)));
            }
            self.started = Some(now);
            self.watched.begin(&key, self.options.name);
        }
        self.watched.saw(now);
        let ask = self.ask(now, deadline);
        if ask.admission {
            self.deadline = Some(ask.deadline);
        }
        let (cell, entry) = KeyCell::enter(&self.shared, &key, ask, now, cx);
        match entry {
            Entry::Granted(token) => Poll::Ready(Ok(self.guard(cell, token))),
            Entry::Seated(seat) => {
                let deadline = ask.deadline;
                // The driver ends the wait, if its timers are ours.
                let timer = (!cell.is_driven_here() && Handle::try_current().is_ok())
                    .then(|| Box::pin(tokio::time::sleep_until(deadline.into())));
                self.state = State::Seated { cell, seat, deadline, timer };
                Poll::Pending
            }
            Entry::Full(waiters) => Poll::Ready(Err(OverloadedError {
                key,
                waiters,
                bound: OverloadBound::Waiters(self.shared.waiters_per_key_max),
                estimated_wait: cell.cohort().estimate(now),
            }
            .into())),
            Entry::Refused(overload) => Poll::Ready(Err(overloaded(key, overload))),
            Entry::Closed | Entry::Retired => Poll::Ready(Err(ClosedError { key }.into())),
        }
    }

    fn guard(&self, cell: Arc<KeyCell>, token: u64) -> LockGuard {
        let hold = Hold::new(cell, token);
        if !self.options.reentrant {
            return LockGuard::sole(hold);
        }
        match LockScope::current() {
            Some(scope) => {
                let hold = Arc::new(hold);
                scope.enter_hold(&self.shared, &hold);
                LockGuard::shared(hold)
            }
            None => LockGuard::sole(hold),
        }
    }

    /// A try is over: pauses before the next, or fails for good.
    fn next_try(&mut self, key: Key, why: TryOver) -> Result<(), AcquireError> {
        self.tries += 1;
        let now = clock::now();
        // Under admission a time-out is that of all tries together.
        let pause = RETRY_PAUSES.pause(self.tries, clock::random_bits());
        let is_over = self.deadline.is_some_and(|deadline| now + pause >= deadline)
            || (self.deadline.is_some() && matches!(why, TryOver::Timeout(..)));
        if is_over || self.tries > self.options.retries || !why.is_retryable() {
            let waited = now.saturating_duration_since(self.started.unwrap_or(now));
            // Under admission one try has all the time.
            let wait = match self.deadline {
                Some(_) => self.options.budget(),
                None => self.options.wait,
            };
            return Err(why.into_error(key, wait, waited, self.tries));
        }
        self.state = State::Pausing(Box::pin(tokio::time::sleep(pause)));
        Ok(())
    }
}

fn overloaded(key: Key, overload: Overload) -> AcquireError {
    let Overload { waiters, estimate, left } = overload;
    let bound = OverloadBound::Budget(left);
    OverloadedError { key, waiters, bound, estimated_wait: Some(estimate) }.into()
}

enum TryOver {
    Timeout(BlockedBy, Option<Duration>),
    Unavailable(Fault),
}

impl TryOver {
    fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout(..) => true,
            Self::Unavailable(fault) => fault.is_transient(),
        }
    }

    fn into_error(self, key: Key, wait: Duration, waited: Duration, tries: u32) -> AcquireError {
        match self {
            Self::Timeout(blocked_by, estimated_wait) => {
                TimeoutError { key, wait, waited, tries, blocked_by, estimated_wait }.into()
            }
            Self::Unavailable(fault) => match fault.found_of_replicas() {
                Some(not_replicated) => NotReplicatedError { key, not_replicated }.into(),
                None => UnavailableError::new(key, fault).into(),
            },
        }
    }
}

impl Acquire {
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<LockGuard, AcquireError>> {
        let this = self;
        loop {
            match std::mem::replace(&mut this.state, State::Done) {
                State::Start => {
                    if let Poll::Ready(result) = this.start(None, cx) {
                        return Poll::Ready(result);
                    }
                }
                State::Seated { cell, seat, deadline, mut timer } => {
                    if let Some(due) = &mut timer
                        && due.as_mut().poll(cx).is_ready()
                    {
                        timer = None;
                        let mut fx = Effects::none();
                        cell.cohort().expire(seat, &mut fx);
                        cell.apply(fx);
                    }
                    let mut cohort = cell.cohort();
                    let verdict = cohort.poll(seat, |waker| waker.clone_from(cx.waker()));
                    let held = match &verdict {
                        Verdict::Granted(token) => {
                            let now = clock::now();
                            this.watched.saw(now);
                            cohort.held_until(*token, now).is_some()
                        }
                        _ => false,
                    };
                    drop(cohort);
                    match verdict {
                        Verdict::Waiting => {
                            this.state = State::Seated { cell, seat, deadline, timer };
                            return Poll::Pending;
                        }
                        Verdict::Granted(token) => {
                            let guard = this.guard(cell, token);
                            if held {
                                return Poll::Ready(Ok(guard));
                            }
                            // Lost before this task came to run: stand in line again.
                            let key = guard.key().clone();
                            drop(guard);
                            if clock::now() >= deadline {
                                let nobody = BlockedBy::Others { ahead: None };
                                this.next_try(key, TryOver::Timeout(nobody, None))?;
                            } else if let Poll::Ready(result) = this.start(Some(deadline), cx) {
                                return Poll::Ready(result);
                            }
                        }
                        Verdict::TimedOut(blocked_by) => {
                            let estimate = cell.cohort().estimate(clock::now());
                            let why = TryOver::Timeout(blocked_by, estimate);
                            this.next_try(cell.key().clone(), why)?;
                        }
                        Verdict::Refused(overload) => {
                            return Poll::Ready(Err(overloaded(cell.key().clone(), overload)));
                        }
                        Verdict::Unavailable(fault) => {
                            this.next_try(cell.key().clone(), TryOver::Unavailable(fault))?;
                        }
                        Verdict::Closed => {
                            let key = cell.key().clone();
                            return Poll::Ready(Err(ClosedError { key }.into()));
                        }
                    }
                }
                State::Pausing(mut pause) => {
                    if pause.as_mut().poll(cx).is_pending() {
                        this.state = State::Pausing(pause);
                        return Poll::Pending;
                    }
                    this.state = State::Start;
                }
                State::Done => panic!("`Acquire` was polled after it had completed"),
            }
        }
    }
}

impl Future for Acquire {
    type Output = Result<LockGuard, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let ended = this.advance(cx);
        match &ended {
            Poll::Ready(result) => this.watched.over(this.started, this.tries, result),
            Poll::Pending => this.watched.stands(matches!(this.state, State::Seated { .. })),
        }
        ended
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let State::Seated { cell, seat, .. } = &self.state {
            let mut fx = Effects::none();
            cell.cohort().cancel(*seat, clock::now(), &mut fx);
            cell.apply(fx);
        }
        if matches!(self.state, State::Seated { .. } | State::Pausing(_)) {
            self.watched.cancelled(self.started, self.tries);
        }
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Start => "start",
            State::Seated { .. } => "waiting",
            State::Pausing(_) => "pausing",
            State::Done => "done",
        };
        f.debug_struct("Acquire")
            .field("key", &self.key)
            .field("tries", &self.tries)
            .field("state", &state)
            .finish_non_exhaustive()
    }
}
