//! The future that waits for a lock.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::coop;

use super::terms;
use crate::backend::{Fault, Mode};
use crate::engine::hold::{Door, Hold, LockGuard, LockScope, Lost, Reentry};
use crate::engine::key::{Drives, KeyCell, Opens, Shared, Timer, unserved};
use crate::engine::observe;
use crate::error::{
    AcquireError, BlockedBy, ClosedError, NotReplicatedError, OverloadBound, OverloadedError,
    TimeoutError, UnavailableError,
};
use crate::ground::{Plus as _, clock, foreign, retry_pause};
use crate::key::{Key, KeyError};
use crate::options::LockOptions;
use crate::proto::{Ask, Effects, Entry, Overload, SeatId, Verdict};
use crate::rejection::Rejection;
use crate::view::Holder;

/// The time that a try which must not wait has for its one round trip.
pub(crate) const TRY_WITHIN: Duration = Duration::from_secs(2);

/// Says before each retry whether it may be made.
pub(in crate::engine) type RetryGate = Arc<dyn Fn() -> bool + Send + Sync>;

/// One key, or why there is none, which the acquire reports.
#[derive(Debug, Clone)]
pub struct OneKey(pub(crate) Result<Key, KeyError>);

impl OneKey {
    /// Takes the outcome of making the key.
    #[must_use]
    pub fn new(key: Result<Key, KeyError>) -> Self {
        Self(key)
    }
}

/// All of an acquire but what it locks: where, on which terms, and what only its caller knows of
/// the line.
#[derive(Clone)]
pub struct Plan {
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: LockOptions,
    /// How many may stand in the line that it joins.
    pub(crate) waiters_max: Option<usize>,
    pub(crate) gate: Option<RetryGate>,
}

impl Plan {
    #[inline]
    pub(crate) fn new(shared: Arc<Shared>, options: LockOptions) -> Self {
        Self { shared, options, waiters_max: None, gate: None }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("options", &self.options)
            .field("waiters_max", &self.waiters_max)
            .finish_non_exhaustive()
    }
}

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
    /// The bound that this one's caller has set.
    waiters_max: Option<usize>,
    opens: Opens,
    gate: Option<RetryGate>,
    started: Option<Instant>,
    /// When the running try is over.
    try_until: Option<Instant>,
    /// Tries begun.
    tries: u32,
    state: State,
    watched: observe::Wait,
}

#[derive(Default)]
enum State {
    // ## Start => (Entering | Seated | Pausing | Done)
    Start,
    // ## Entering => (Start | Pausing | Done)
    // Called under a hold of the key, which another call under it has re-entered.
    // Boxed, as it is rare and large, and every acquire is moved about with its state.
    Entering(Box<Entering>),
    // ## Seated => (Start | Pausing | Done)
    Seated(Seated),
    // ## Pausing => Start
    Pausing(Timer),
    #[default]
    Done,
}

struct Seated {
    cell: Arc<KeyCell>,
    seat: SeatId,
    timer: Option<Timer>,
    /// When it sat down, until it was polled.
    since: Option<Instant>,
}

struct Entering {
    door: Door,
    turn: Taking,
    lost: Lost,
    timer: Timer,
}

/// None once the guard that it is a turn of is gone.
type Taking = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send + Sync>>;

impl Acquire {
    #[inline]
    pub(crate) fn new(plan: Plan, key: Result<Key, KeyError>) -> Self {
        let Plan { shared, options, waiters_max, gate } = plan;
        let (state, watched) = (State::Start, observe::Wait::new());
        let (opens, started, try_until, tries) = (Opens::Lock, None, None, 0);
        Self {
            shared,
            key,
            options,
            waiters_max,
            opens,
            gate,
            started,
            try_until,
            tries,
            state,
            watched,
        }
    }

    /// Makes it one that stands for election.
    pub(in crate::engine) fn publishing(mut self, value: Arc<str>) -> Self {
        self.opens = Opens::Candidate(value);
        self
    }

    /// Makes it one that takes the key from all who hold it.
    pub(crate) fn forcing(mut self) -> Self {
        self.opens = Opens::Force;
        // Also from a hold that this is called under. Nobody else finds its claim, to have it again.
        (self.options.reentrant, self.options.linger) = (false, Duration::ZERO);
        self
    }

    /// Makes it one try that ends then: for one of several keys that share a budget.
    pub(in crate::engine) fn until(mut self, deadline: Instant) -> Self {
        (self.try_until, self.tries) = (Some(deadline), 1);
        self
    }

    /// How many tries it has begun; 0 before its first poll, and where it re-enters a hold at once.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.tries
    }

    fn queues(&self) -> bool {
        !self.options.wait.is_zero()
    }

    /// Whether all tries share one wait in one place of the line. A try that does not wait has
    /// nothing to be spared.
    fn has_admission(&self) -> bool {
        self.options.admission && self.queues()
    }

    /// The time for all tries and the pauses between them.
    fn budget(&self) -> Duration {
        if self.queues() { self.options.budget() } else { TRY_WITHIN }
    }

    /// The rest of it at `now`.
    fn left(&self, now: Instant) -> Duration {
        let spent = match self.started {
            Some(started) if started != now => now.saturating_duration_since(started),
            // Most acquires need one try, and it begins now.
            _ => Duration::ZERO,
        };
        self.budget().saturating_sub(spent)
    }

    /// How many may stand in line, and who says so.
    fn line_bound(&self) -> (usize, OverloadBound) {
        let of_client = self.shared.waiters_per_key_max;
        match self.waiters_max {
            Some(own) if own <= of_client => (own, OverloadBound::OwnWaiters(own)),
            _ => (of_client, OverloadBound::Waiters(of_client)),
        }
    }

    fn ask(&mut self, now: Instant) -> Ask {
        let (queues, admission) = (self.queues(), self.has_admission());
        let one_try = if queues && !admission { self.options.wait } else { self.budget() };
        let LockOptions { hold_limit, linger, min_hold, fairness, .. } = self.options;
        let (handoffs_max, slice) = fairness.bounds();
        let (deadline, left) = match self.try_until {
            Some(until) => (until, until.saturating_duration_since(now)),
            None => {
                let left = one_try.min(self.left(now));
                (now.plus(left), left)
            }
        };
        self.try_until = Some(deadline);
        let budget = one_try;
        let terms = terms::of(&self.options, self.shared.label, queues, left);
        let waiters_max = self.line_bound().0;
        Ask {
            deadline,
            budget,
            admission,
            waiters_max,
            hold_limit,
            linger,
            min_hold,
            handoffs_max,
            slice,
            name: self.watched.name(),
            terms,
        }
    }

    /// Checks the input once. Then re-enters the hold that this is called under, or enters the
    /// line. If a grant came too late to be of use, it enters again with the same deadline.
    fn start(&mut self, cx: &Context<'_>) -> Poll<Result<LockGuard, AcquireError>> {
        let Self { shared, key, options, opens, started, watched, .. } = self;
        let key = match key {
            Ok(key) => &*key,
            Err(error) => return Poll::Ready(Err(error.clone().into())),
        };
        let now = clock::now();
        if started.is_none() {
            terms::check(options, key, &shared.capabilities)?;
            if let Opens::Force = opens {
                terms::check_forced(options, key, &shared.capabilities)?;
            }
        }
        let reentry = match options.reentrant {
            true => LockScope::reenter(shared, key, options, now),
            false => Reentry::Stranger,
        };
        match reentry {
            Reentry::Entered(hold) => return Poll::Ready(Ok(LockGuard::new(hold))),
            Reentry::Refused(error) => return Poll::Ready(Err(*error)),
            Reentry::Stranger | Reentry::Busy(_) => {}
        }
        if started.is_none() {
            *started = Some(now);
            watched.begin(key, options.name);
        }
        self.watched.saw(now);
        self.tries += u32::from(self.try_until.is_none());
        let ask = self.ask(now);
        match reentry {
            Reentry::Busy(door) => self.wait_for_turn(door, ask.deadline),
            _ => self.stand_in_line(&ask, now, cx),
        }
    }

    fn wait_for_turn(
        &mut self,
        door: Door,
        deadline: Instant,
    ) -> Poll<Result<LockGuard, AcquireError>> {
        // Nothing would end the wait of a task without timers.
        let timer = self.shared.sleep_until(deadline).filter(|_| self.queues());
        let Some(timer) = timer else {
            self.next_try(door.key().clone(), TryOver::by_sibling(&door))?;
            return Poll::Pending;
        };
        let turn = door.turn();
        let turn: Taking = Box::pin(async { turn.acquire_owned().await.ok() });
        self.state = State::Entering(Box::new(Entering { lost: door.lost(), door, turn, timer }));
        Poll::Pending
    }

    fn stand_in_line(
        &mut self,
        ask: &Ask,
        now: Instant,
        cx: &Context<'_>,
    ) -> Poll<Result<LockGuard, AcquireError>> {
        let key = match &self.key {
            Ok(key) => key,
            Err(error) => return Poll::Ready(Err(error.clone().into())),
        };
        // A store may answer at once, and a lock that nobody would renew is none.
        if let Err(error) = self.shared.conductor.begin() {
            self.next_try(key.clone(), TryOver::Unavailable(unserved(&error)))?;
            return Poll::Pending;
        }
        let (cell, entry) = KeyCell::enter(&self.shared, key, &self.opens, ask, now, cx);
        let key = || cell.key().clone();
        match entry {
            Entry::Granted(token) => {
                // Its limit may be over before what the driver waits for, or a renewal be due.
                cell.nudge();
                Poll::Ready(Ok(LockGuard::new(Hold::new(cell, token))))
            }
            Entry::Seated(seat) => {
                self.state = State::Seated(Seated { cell, seat, timer: None, since: Some(now) });
                Poll::Pending
            }
            Entry::Full(waiters) => {
                let estimated_wait = cell.cohort().estimate(now);
                let bound = self.line_bound().1;
                let error = OverloadedError { key: key(), waiters, bound, estimated_wait };
                Poll::Ready(Err(error.into()))
            }
            Entry::Refused(overload) => Poll::Ready(Err(overloaded(key(), overload))),
            Entry::Closed | Entry::Retired => Poll::Ready(Err(ClosedError { key: key() }.into())),
        }
    }

    /// A try is over: pauses before the next, or fails for good. Pauses are a part of the budget.
    fn next_try(&mut self, key: Key, why: TryOver) -> Result<(), AcquireError> {
        let now = clock::now();
        let waited_it_out = self.has_admission() && matches!(why, TryOver::Timeout(..));
        let worth_it = why.is_retryable() && !waited_it_out;
        let may = worth_it && self.queues() && self.tries <= self.options.retries;
        if may
            && let Some(pause) = retry_pause(self.tries, self.left(now), clock::random_bits())
            && self.gate.as_ref().is_none_or(|gate| gate())
            && let Some(pause) = self.shared.sleep_until(now.plus(pause))
        {
            (self.state, self.try_until) = (State::Pausing(pause), None);
            return Ok(());
        }
        let waited = now.saturating_duration_since(self.started.unwrap_or(now));
        // Under admission one try has all the time.
        let wait = if self.has_admission() { self.options.budget() } else { self.options.wait };
        Err(why.into_error(key, wait, waited, self.tries))
    }
}

impl Seated {
    /// Polls the driver of the key, and looks what has become of the seat; also when that was.
    fn told(
        &mut self,
        shared: &Arc<Shared>,
        try_until: Option<Instant>,
        cx: &mut Context<'_>,
    ) -> Poll<(Verdict, Instant)> {
        let Self { cell, seat, timer, since } = self;
        loop {
            let now = since.take().unwrap_or_else(clock::now);
            cell.drive(Drives::Seat(*seat), Some(now));
            let mut before = None;
            let verdict =
                cell.cohort().poll(*seat, now, |waker| before = foreign::renew(waker, cx));
            drop(before);
            let Verdict::Waiting = verdict else { return Poll::Ready((verdict, now)) };
            if timer.is_none()
                && let Some(until) = try_until
                && !shared.conductor.serves_here()
            {
                *timer = shared.sleep_until(until);
            }
            let is_due = timer.as_mut().is_some_and(|due| Pin::new(due).poll(cx).is_ready());
            let is_late = try_until.is_some_and(|until| now >= until);
            if is_due || is_late {
                let mut fx = Effects::none();
                cell.cohort().expire(*seat, &mut fx);
                cell.apply(fx);
            } else if !cell.is_woken() {
                return Poll::Pending;
            }
        }
    }
}

fn overloaded(key: Key, overload: Overload) -> AcquireError {
    let Overload { waiters, estimate, left } = overload;
    let bound = OverloadBound::Budget(left);
    OverloadedError { key, waiters, bound, estimated_wait: Some(estimate) }.into()
}

/// The obstacle at the end of a wait.
struct InTheWay {
    blocked_by: BlockedBy,
    holder: Option<Arc<Holder>>,
    estimated_wait: Option<Duration>,
}

enum TryOver {
    Timeout(InTheWay),
    Unavailable(Fault),
}

impl TryOver {
    /// Another call under the same hold has re-entered it.
    fn by_sibling(door: &Door) -> Self {
        let blocked_by = BlockedBy::ThisClient { token: door.token() };
        Self::Timeout(InTheWay { blocked_by, holder: None, estimated_wait: None })
    }

    fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout(..) => true,
            Self::Unavailable(fault) => fault.is_transient(),
        }
    }

    fn into_error(self, key: Key, wait: Duration, waited: Duration, tries: u32) -> AcquireError {
        match self {
            Self::Timeout(InTheWay { blocked_by, holder, estimated_wait }) => {
                TimeoutError { key, wait, waited, tries, blocked_by, holder, estimated_wait }.into()
            }
            Self::Unavailable(fault) => match fault.found_of_replicas() {
                Some(not_replicated) => {
                    NotReplicatedError { key, not_replicated, is_reentry: false }.into()
                }
                None => UnavailableError::new(key, fault).into(),
            },
        }
    }
}

impl Acquire {
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<LockGuard, AcquireError>> {
        loop {
            match &mut self.state {
                State::Start => {
                    self.state = State::Done;
                    if let Poll::Ready(result) = self.start(cx) {
                        return Poll::Ready(result);
                    }
                }
                State::Entering(entering) => {
                    let Entering { door, turn, lost, timer } = &mut **entering;
                    if let Poll::Ready(permit) = turn.as_mut().poll(cx) {
                        let now = clock::now();
                        let entered = |it| Hold::entered(door, it, self.options.mode, now);
                        let hold = permit.and_then(entered);
                        // Without one the guard, or the hold, is gone: like any other from now on.
                        self.state = if hold.is_some() { State::Done } else { State::Start };
                        if let Some(hold) = hold {
                            self.watched.saw(now);
                            return Poll::Ready(Ok(LockGuard::new(hold)));
                        }
                    } else if Pin::new(lost).poll(cx).is_ready() {
                        self.state = State::Start;
                    } else if Pin::new(timer).poll(cx).is_ready() {
                        let (key, why) = (door.key().clone(), TryOver::by_sibling(door));
                        self.state = State::Done;
                        self.next_try(key, why)?;
                    } else {
                        return Poll::Pending;
                    }
                }
                State::Seated(seated) => {
                    // Until there is a verdict the seat stays: whatever panics, it is given back.
                    let (verdict, now) = ready!(seated.told(&self.shared, self.try_until, cx));
                    let State::Seated(Seated { cell, .. }) = mem::take(&mut self.state) else {
                        continue;
                    };
                    // A waiter that was told to poll the driver, and goes, has somebody else told.
                    cell.nudge();
                    if let Some(guard) = self.judge(cell, verdict, now)? {
                        return Poll::Ready(Ok(guard));
                    }
                }
                State::Pausing(pause) => {
                    ready!(Pin::new(pause).poll(cx));
                    self.state = State::Start;
                }
                State::Done => panic!("`Acquire` was polled after it had completed"),
            }
        }
    }

    /// The guard that a verdict brings; without one the next state is set.
    fn judge(
        &mut self,
        cell: Arc<KeyCell>,
        verdict: Verdict,
        now: Instant,
    ) -> Result<Option<LockGuard>, AcquireError> {
        let key = || cell.key().clone();
        match verdict {
            Verdict::Granted(token) => {
                self.watched.saw(now);
                return Ok(Some(LockGuard::new(Hold::new(cell, token))));
            }
            // Lost before this task came to run: stand in line again.
            Verdict::TooLate(token) => {
                self.watched.saw(now);
                drop(Hold::new(cell.clone(), token));
                if self.try_until.is_some_and(|until| now < until) {
                    self.state = State::Start;
                    return Ok(None);
                }
                let blocked_by = BlockedBy::Others { ahead: None };
                let nobody = InTheWay { blocked_by, holder: None, estimated_wait: None };
                self.next_try(key(), TryOver::Timeout(nobody))?;
            }
            Verdict::TimedOut(blocked_by) => {
                let cohort = cell.cohort();
                let is_elsewhere = matches!(blocked_by, BlockedBy::Others { .. });
                let holder = cohort.rival(now).filter(|_| is_elsewhere);
                let estimated_wait = cohort.estimate(now);
                drop(cohort);
                let in_the_way = InTheWay { blocked_by, holder, estimated_wait };
                self.next_try(key(), TryOver::Timeout(in_the_way))?;
            }
            Verdict::Refused(overload) => return Err(overloaded(key(), overload)),
            Verdict::Unavailable(fault) => self.next_try(key(), TryOver::Unavailable(fault))?,
            Verdict::OtherLimit(in_use) => {
                let key = key();
                let given = match self.options.mode {
                    Mode::Permit { of } => of,
                    _ => 0,
                };
                return Err(Rejection::OtherLimit { key, given, in_use }.into());
            }
            Verdict::Closed | Verdict::Waiting => return Err(ClosedError { key: key() }.into()),
        }
        Ok(None)
    }
}

impl Future for Acquire {
    type Output = Result<LockGuard, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // A key that is free in this process is granted at once, and would never let others run.
        let budget = ready!(coop::poll_proceed(cx));
        let this = &mut *self;
        let ended = this.advance(cx);
        match &ended {
            Poll::Ready(result) => {
                budget.made_progress();
                let token = result.as_ref().map(|guard| guard.token());
                this.watched.over(this.started, this.tries, token);
            }
            Poll::Pending => this.watched.stands(this.is_in_line()),
        }
        ended
    }
}

impl Acquire {
    fn is_in_line(&self) -> bool {
        matches!(self.state, State::Seated(_) | State::Entering(_))
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        if let State::Seated(Seated { cell, seat, .. }) = &self.state {
            let mut fx = Effects::none();
            let waker = cell.cohort().cancel(*seat, clock::now(), &mut fx);
            cell.settle(fx);
            drop(waker);
        }
        if self.is_in_line() || matches!(self.state, State::Pausing(_)) {
            self.watched.cancelled(self.started, self.tries);
        }
    }
}

impl fmt::Debug for Acquire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Start => "start",
            State::Entering(_) => "waiting for a call beside it",
            State::Seated(_) => "waiting",
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
