//! The waiters of one process for one key, and the claims that talk to the store for them.
//!
//! A claim has a *lane*. A key has one, whose claim serves all who want the key alone, one after
//! the other, or all who share it, together. Of permits a process has a lane for each that it wants
//! at the same time. All lanes have one line. Claims of two modes are not open at once: the earlier
//! ones are given back first.
//!
//! The machine of a lane, as [`Phase`] has it:
//!
//! - `Vacant`: no claim. With somebody in line, [`Step::Open`] opens one.
//! - `Asking`: a claim is open and not granted. The store is asked again when it pushed
//!   something, or when its recheck time has come.
//! - `Held`: the claim is granted. A *release* passes the lock to the head of the line without any
//!   I/O if all of this holds: the claim has what the waiter asked for (a lease as long, as many
//!   replicas), a token is left, nobody asked for the key, and the fairness bounds allow it.
//!   Otherwise the claim is withdrawn, and opened anew for those who still wait. A claim that has
//!   less than half of the lease left is renewed before it is handed on. Tokens that run out are
//!   asked for, unless the store has no more for this claim.
//!
//! # Terms of a claim
//!
//! A claim is opened on the terms of the waiter at the head of the line: its lease, its replicas,
//! its name. They are fixed. Later waiters share the claim, and each of them is checked against it
//! before it is given it (`Held::suits`): when a holder passes it on, when it lingers, and when
//! it is granted after its opener has left. One that asks for more has the claim given back, and
//! opened anew on its own terms. One that asks for less takes what is there. So a mixed line costs
//! one claim more, and then goes on with the longest lease.
//!
//! The lease that is compared is the one asked for, or what the store last gave if that is less. A
//! grant that was pushed at Redis is good for 1.5 s at most. It is given to the head of the line
//! and handed on without a further round trip. Its renewal is due at a third of that, and gives the
//! full lease.
//!
//! Less than half of a lease is not handed on (`LeaseClock::has_half_of`). The claim is renewed
//! first, and handed on at the answer, whatever that leaves. A renewal that was under way before
//! may have been long on its way, so one more follows it.
//!
//! # Readers and permits
//!
//! In a process, readers are several holders of one claim (`Held::holder`, `More::readers`), so a
//! reader beside others costs no request. Permits are several claims behind one line. The cohort
//! knows lanes by what they are, and names those in which something has changed, so what one lane
//! does costs the same however many others there are. A lane is opened for each waiter that no open
//! claim asks for, up to the limit.
//!
//! A downgrade is a renewal that changes the mode, so it is repeated as renewals are. The hold
//! counts as a reader's from the moment it is asked for, as the answer may get lost. Readers of
//! this process are let in when the store has said so.
//!
//! # Files
//!
//! - [`seats`]: arriving, waiting, giving up. [`admit`]: refusing whose turn would come too late.
//! - [`step`]: the next step of the driver, and the answers that it got.
//! - [`held`]: granting, handing on, releasing, losing. [`readers`]: several holders of one claim.
//! - [`lanes`], [`beside`]: which claims are open, and those beside the first.
//! - [`told`]: news for a holder. [`rival`]: the holder elsewhere, for those who wait in vain.
//! - [`changes`]: news for those who watch. [`effort`]: for tests.
//!
//! # The machine and its caller
//!
//! Every method takes the time. It leaves in [`Effects`] what the caller must do once it has
//! dropped the mutex around the machine: wake tasks, answer a release, poke the driver.
//!
//! `W` wakes a task, `R` answers a release.

mod admit;
mod beside;
mod changes;
pub(crate) mod effort;
mod held;
mod lanes;
mod readers;
mod rival;
mod seats;
mod step;
#[cfg(test)]
mod tests;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::admission::{Admission, Ahead};
use super::lease::LeaseClock;
pub(crate) use super::line::SeatId;
use super::line::{Line, Stands};
use crate::backend::{Fault, Mode, Replicas, Terms};
use crate::lock_name::LockName;
use crate::proto::{BlockedBy, LossReason};
use crate::token::TokenBlock;
use crate::view::{self, Quantiles};
use beside::Beside;
pub(crate) use changes::Changes;
use changes::Ended;
pub(crate) use held::NotDowngraded;
use readers::Readers;
use rival::Rival;
pub(crate) use told::Event;

/// The wishes of one waiter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// When this try is over.
    pub(crate) deadline: Instant,
    /// The time from arrival to `deadline`.
    pub(crate) budget: Duration,
    /// Whether to be refused, at arrival or as soon as it is seen, when waiting is of no use.
    pub(crate) admission: bool,
    /// The length of the line at which it is not let in.
    pub(crate) waiters_max: usize,
    pub(crate) hold_limit: Option<Duration>,
    pub(crate) linger: Duration,
    /// How long the key stays taken from the grant on, whoever lets go.
    pub(crate) min_hold: Duration,
    /// Hand-offs inside this process once others want the key, and the time for them.
    pub(crate) handoffs_max: u32,
    pub(crate) slice: Duration,
    /// The name that the hold is counted under.
    pub(crate) name: LockName,
    /// Those of the claim, if this waiter opens it; what an open one must have, to be given to it.
    pub(crate) terms: Terms,
}

impl Ask {
    /// Whether a claim in this mode, of this lease and with these replicas has what it asks for.
    fn is_met_by(&self, mode: Mode, lease: Duration, replicas: Option<Replicas>) -> bool {
        self.terms.mode == mode
            && lease >= self.terms.lease
            && self.terms.replicas.is_none_or(|asked| asked.is_met_by(replicas))
    }
}

/// The answer to a waiter's arrival.
#[derive(Debug)]
pub(crate) enum Entry {
    /// The lock was idle here: it is granted under this token.
    Granted(u64),
    /// In line; [`Cohort::poll`] tells more.
    Seated(SeatId),
    /// The line is full; so many wait.
    Full(usize),
    /// Its turn would come too late.
    Refused(Overload),
    /// The client is shut down.
    Closed,
    /// This cohort was taken off the registry; look the key up again.
    Retired,
}

/// Why waiting is of no use: so many waiters, and how long they are likely to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overload {
    pub(crate) waiters: usize,
    pub(crate) estimate: Duration,
    /// The rest of the budget.
    pub(crate) left: Duration,
}

/// The end of a waiter.
#[derive(Debug, Clone)]
pub(crate) enum Verdict {
    Waiting,
    Granted(u64),
    /// The hold was over before the waiter came to look.
    TooLate(u64),
    TimedOut(BlockedBy),
    Refused(Overload),
    Unavailable(Fault),
    /// Permits of the key are in use under this other limit.
    OtherLimit(u32),
    Closed,
}

/// The answer to a release.
#[derive(Debug, Clone)]
pub(crate) enum ReleaseAnswer {
    Released,
    NotHeld,
    Unknown(Fault),
}

/// The next step of the driver.
#[derive(Debug)]
pub(crate) enum Step<R> {
    /// Open a claim on these terms and ask for the lock.
    Open(Terms),
    /// Ask again with the open claim.
    Attempt,
    /// Renew the granted claim.
    Renew,
    /// Make the granted claim a reader's, which renews it.
    Downgrade,
    /// Withdraw the open claim, in the background of whatever comes next, and answer.
    Leave { reply: Option<R>, lease: Duration },
    /// Ask the store who holds the key, beside all else: a wait is about to end in vain.
    Inspect,
    /// Drop the open claim: the store knows nothing of it, or it rests until its lease ends.
    Forget,
    /// Wait for an answer, a poke, or this instant; and where it is to `listen`, for a push.
    Wait { until: Option<Instant>, listen: bool },
    /// Nothing is left to do: if so for all lanes, take the cohort off the registry.
    Stop,
}

/// What a waker is to do once the mutex is dropped. Its end is foreign code as its call is: where an
/// executor has a task by its wakers alone, the last of them takes the task with it, and what that
/// holds of this key comes back here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waking<W> {
    /// Wake its task.
    Wake(W),
    /// End: nothing will come of what it waited for.
    End(W),
}

/// The duties of the caller after it has dropped the mutex.
#[derive(Debug)]
#[must_use]
pub(crate) struct Effects<W, R> {
    /// The seat that was granted the lock, and its task.
    pub(crate) wake: Option<(SeatId, W)>,
    /// Tasks whose wait or hold is over, and wakers that are of no use any more.
    pub(crate) wake_more: Vec<Waking<W>>,
    /// A release that is done.
    pub(crate) reply: Option<(R, ReleaseAnswer)>,
    /// The driver must look again.
    pub(crate) poke: bool,
    /// A driver must be started.
    pub(crate) spawn: bool,
    /// News for those who watch a service.
    pub(crate) changes: Changes,
}

impl<W, R> Effects<W, R> {
    pub(crate) const fn none() -> Self {
        Self {
            wake: None,
            wake_more: Vec::new(),
            reply: None,
            poke: false,
            spawn: false,
            changes: Changes::none(),
        }
    }

    /// Whether there is nothing to do, and nothing to free.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        let is_told = self.wake.is_some() || self.wake_more.capacity() > 0 || self.reply.is_some();
        !(self.poke || self.spawn || is_told || self.changes.is_some())
    }
}

/// Counts of what was done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) acquired: u64,
    pub(crate) handoffs_local: u64,
    pub(crate) handoffs_remote: u64,
    pub(crate) timeouts: u64,
    pub(crate) refused: u64,
    pub(crate) lost: u64,
    pub(crate) renewals: u64,
}

impl Counters {
    pub(crate) fn add(&mut self, other: Self) {
        self.acquired += other.acquired;
        self.handoffs_local += other.handoffs_local;
        self.handoffs_remote += other.handoffs_remote;
        self.timeouts += other.timeouts;
        self.refused += other.refused;
        self.lost += other.lost;
        self.renewals += other.renewals;
    }
}

#[derive(Debug)]
struct Seat<W> {
    ask: Ask,
    entered: Instant,
    state: SeatState<W>,
}

impl<W> Stands for Seat<W> {
    fn is_like(&self, other: &Self) -> bool {
        self.ask.terms.mode == other.ask.terms.mode
    }

    fn is_hasty(&self) -> bool {
        !self.ask.terms.queues
    }
}

#[derive(Debug)]
enum SeatState<W> {
    Waiting(W),
    Over(Verdict),
}

#[derive(Debug)]
enum Phase<R> {
    Vacant,
    Asking(Asking),
    Held(Held<R>),
}

impl<R> Phase<R> {
    fn mode(&self) -> Option<Mode> {
        match self {
            Self::Vacant => None,
            Self::Asking(asking) => Some(asking.terms.mode),
            Self::Held(held) => Some(held.mode),
        }
    }
}

#[derive(Debug)]
struct Asking {
    terms: Terms,
    /// When to ask again; the first attempt is part of [`Step::Open`].
    ask_at: Instant,
    /// When it asked last. Its answer counts for those who were in line by then.
    asked: Instant,
    answered: bool,
    /// Granted, and not to be used, whoever is in line: the next claim is opened on their terms.
    given_back: bool,
}

impl Asking {
    /// Whether its claim will have what a waiter asks for.
    fn suits(&self, ask: &Ask) -> bool {
        effort::spend();
        let Terms { lease, mode, replicas, .. } = self.terms;
        !self.given_back && ask.is_met_by(mode, lease, replicas)
    }

    /// Only what the store has said counts: those ahead may have left before it answered.
    fn is_in_line(&self) -> bool {
        self.terms.queues && self.answered
    }
}

#[derive(Debug)]
struct Held<R> {
    /// The terms that later waiters are compared with: the lease, and by how many replicas the
    /// grant was acknowledged. Other terms that it was opened on are not kept, as many keys are
    /// held.
    lease: Duration,
    replicas: Option<Box<Replicas>>,
    clock: LeaseClock,
    tokens: TokenBlock,
    /// The store has no more tokens for this claim than those in `tokens`.
    spent: bool,
    /// Tokens of a claim that is shared, as a power of two: more are asked for when fewer are left.
    /// How many readers come is not known beforehand, and all wait for a refill that comes too
    /// late.
    tokens_low: u8,
    /// Somebody asked for the key: once the hold is over, the claim is given back.
    revoke_requested: bool,
    mode: Mode,
    /// The number of this permit.
    slot: u16,
    downgrade: Downgrade,
    refresh: Refresh,
    /// The renewal that was asked for last is for those in line, see [`held::Idle::Refill`].
    refilling: bool,
    standing: Standing,
    /// Since when other claims wait.
    wanted: Option<Instant>,
    /// The hand-offs here since, and readers who were let in beside others.
    handed_off: u32,
    /// One of several readers; the others are in [`More`].
    holder: Option<Holder>,
    linger: Option<Box<Linger>>,
    /// A `min_hold`: once its holder has let go, nobody is given the claim before, and it is not given
    /// back unless an operator asks. On the heap, as few have one.
    rests_until: Option<Box<Instant>>,
    /// Others have wanted the key since it was granted, or tried it. The store may tell of that
    /// once only, so the claim does not linger any more: the next one may.
    contested: bool,
    /// The release that is told when the claim was withdrawn.
    reply: Option<R>,
}

/// The renewal of a granted claim, as far as it got. The clock asks for one in any state but
/// `UnderWay`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refresh {
    // ## Idle => (Due | UnderWay)
    Idle,
    // ## Due => UnderWay
    // For tokens, to learn who waits, for a downgrade, or as another server is to be asked.
    Due,
    // ## UnderWay => (Idle | Due | Failed)
    // Questions that came meanwhile are answered with it, but for a downgrade.
    UnderWay { behind_failure: bool },
    // ## Failed => (Due | UnderWay)
    // There is none before the clock says so, unless another server is to be asked, or a downgrade.
    Failed,
}

/// Whether a granted claim may be given to anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    // ## Good => (Unconfirmed | Over)
    Good,
    // ## Unconfirmed => (Good | Over)
    // Another server has taken the place of the one that granted it, and may know nothing of it.
    // Nobody new is given the claim until it was renewed there.
    Unconfirmed,
    // The lease ended by our clock; a late answer does not revive it.
    Over,
}

/// The downgrade of a writer to a reader, as far as it got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Downgrade {
    No,
    /// The next renewal is to say so.
    Due,
    /// The renewal under way does.
    Asked,
}

/// The last hold is to be followed by another one.
#[derive(Debug)]
struct Linger {
    time: Duration,
    /// When a claim without a holder is given back, unless others want it first.
    until: Option<Instant>,
}

#[derive(Debug)]
struct Holder {
    token: u64,
    since: Instant,
    until: Option<Instant>,
    /// The guards of this hold: the one that was granted, and those that re-entered it.
    guards: u32,
    name: LockName,
}

#[derive(Debug)]
struct LostHold {
    slot: u32,
    reason: LossReason,
    guards: u32,
}

impl Holder {
    fn ended(&self, now: Instant, lost: Option<LossReason>) -> Ended {
        Ended { held_for: now.saturating_duration_since(self.since), lost, name: self.name }
    }
}

/// The waiters of one process for one key, and the state of their claim.
///
/// A waiter calls [`enter`](Self::enter), then [`poll`](Self::poll) until it has a verdict, or
/// [`cancel`](Self::cancel). A guard calls [`release`](Self::release). The driver calls
/// [`step`](Self::step) for the first lane, and for each that [`next_lane`](Self::next_lane) names.
/// It does what that says, and reports by [`attempted`](Self::attempted),
/// [`renewed`](Self::renewed) or [`changed`](Self::changed); then it asks for the next step. Before
/// it sends a renewal it calls [`renewing`](Self::renewing).
#[derive(Debug)]
pub(crate) struct Cohort<W, R> {
    line: Line<Seat<W>>,
    /// The first lane; the others are in [`More`].
    place: Phase<R>,
    /// No deadline in the line is earlier than this.
    earliest: Option<Instant>,
    /// When the store last answered, or a guard of this process last let go.
    answered_at: Option<Instant>,
    /// From when two want the key at once on.
    admission: Option<Box<Admission>>,
    /// By a grant of the store, not by a hand-off here.
    acquired_there: u64,
    renewals: u64,
    /// Not there for most keys, so that many can be held at once.
    more: Option<Box<More<W, R>>>,
    has_driver: bool,
    retired: bool,
    client: Client,
}

/// The rest of the client that asks for the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    // ## Open => (Gone | Closed)
    /// It may ask again.
    Open,
    // ## Gone => Closed
    /// Its last handle was dropped. Who waits or holds goes on, and nothing lingers for who might
    /// come.
    Gone,
    /// It was shut down: nobody waits any more.
    Closed,
}

/// State that most keys never need: they are free when they are asked for, and released by their
/// holder.
///
/// The fields that every further reader writes are first, in one line of a processor's cache.
#[derive(Debug)]
#[repr(C)]
struct More<W, R> {
    /// Readers who hold the key beside [`Held::holder`], in the order of their tokens.
    readers: Readers,
    /// But for those that every key has.
    counters: Counters,
    /// Lanes beside the first.
    beside: Option<Box<Beside<R>>>,
    /// Claims ahead of ours at the last answer.
    ahead: Option<Option<u32>>,
    /// On the heap, as few waits end in vain.
    rival: Option<Box<Rival>>,
    /// Why the store did not answer the last time.
    trouble: Option<Fault>,
    /// How often in a row the store did not answer.
    failures: u32,
    /// Pause before it is asked again.
    ask_not_before: Option<Instant>,
    /// The guards that there were before the grant of a claim that is shared.
    acquired_before: u64,
    /// How many were let in by the last such claim.
    let_in: u32,
    /// Holds that ended before their release, by their tokens, until their guards are gone.
    lost: BTreeMap<u64, LostHold>,
    /// Watchers of a hold, by its token and a number of their own.
    watchers: BTreeMap<(u64, u64), told::Watcher<W>>,
    watchers_made: u64,
}

impl<W, R> Default for More<W, R> {
    fn default() -> Self {
        Self {
            beside: None,
            ahead: None,
            rival: None,
            trouble: None,
            failures: 0,
            ask_not_before: None,
            readers: Readers::default(),
            acquired_before: 0,
            let_in: 0,
            lost: BTreeMap::new(),
            watchers: BTreeMap::new(),
            watchers_made: 0,
            counters: Counters::default(),
        }
    }
}

impl<W, R> Cohort<W, R> {
    pub(crate) const fn new() -> Self {
        Self {
            line: Line::new(),
            place: Phase::Vacant,
            earliest: None,
            answered_at: None,
            admission: None,
            acquired_there: 0,
            renewals: 0,
            more: None,
            has_driver: false,
            retired: false,
            client: Client::Open,
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        let counters = self.more.as_ref().map_or_else(Counters::default, |more| more.counters);
        Counters { acquired: self.acquired(), renewals: self.renewals, ..counters }
    }

    /// How many guards there were.
    fn acquired(&self) -> u64 {
        self.acquired_there + self.more.as_ref().map_or(0, |more| more.counters.handoffs_local)
    }

    fn more(&mut self) -> &mut More<W, R> {
        self.more.get_or_insert_default()
    }

    /// Counts that not every key has.
    fn count(&mut self) -> &mut Counters {
        &mut self.more().counters
    }

    fn trouble(&self) -> Option<&Fault> {
        self.more.as_ref()?.trouble.as_ref()
    }

    fn ahead(&self) -> Option<u32> {
        self.more.as_ref()?.ahead.flatten()
    }

    fn ask_not_before(&self) -> Option<Instant> {
        self.more.as_ref()?.ask_not_before
    }

    fn has_watchers(&self) -> bool {
        self.more.as_ref().is_some_and(|more| !more.watchers.is_empty())
    }

    /// How many wait in line.
    pub(crate) fn waiters(&self) -> usize {
        self.line.len()
    }

    /// The waker of the task at the head of the line, unless it is the conductor's to look: what is
    /// under way is a renewal, which must not wait for a task that may not come to run.
    pub(crate) fn head_waker(&self) -> Option<W>
    where
        W: Clone,
    {
        if self.is_renewing() {
            return None;
        }
        match &self.line.first()?.state {
            SeatState::Waiting(waker) => Some(waker.clone()),
            SeatState::Over(_) => None,
        }
    }

    /// The wakers of those who wait, and of those who watch the hold.
    pub(crate) fn wakers(&self) -> Vec<W>
    where
        W: Clone,
    {
        let waiting = self.line.iter().filter_map(|seat| match &seat.state {
            SeatState::Waiting(waker) => Some(waker.clone()),
            SeatState::Over(_) => None,
        });
        let watchers = self.more.iter().flat_map(|more| more.watchers.values());
        waiting.chain(watchers.map(|watcher| watcher.waker.clone())).collect()
    }

    /// How many guards hold it here.
    pub(crate) fn held_here(&self) -> usize {
        let more = self.more.as_ref().map_or(0, |more| more.readers.len());
        let beside = self.beside().map_or(0, Beside::held);
        usize::from(self.held_in(0).is_some_and(|held| held.holder.is_some())) + more + beside
    }

    /// Whether nobody here waits for the key or holds it.
    pub(crate) fn is_forsaken(&self) -> bool {
        self.line.is_empty() && self.holder().is_none()
    }

    /// The token of the guard that holds the lock here; of several, that of one.
    pub(crate) fn holder(&self) -> Option<u64> {
        let first = self.held_in(0).and_then(|held| held.holder.as_ref());
        first.map(|holder| holder.token).or_else(|| self.beside()?.holder())
    }

    /// The guards that hold the lock here: their tokens and modes, since when, and until when that
    /// is good.
    pub(crate) fn holds(&self, now: Instant) -> Vec<(u64, Mode, Instant, Instant)> {
        let lanes = 0..self.opened();
        let holds = lanes.filter_map(|lane| Some((lane, self.held_in(lane)?)));
        let all = holds.flat_map(|(lane, held)| {
            let good = move |holder: &Holder| {
                let until = held.good_until(holder, now)?;
                Some((holder.token, held.mode, holder.since, until))
            };
            self.holders_in(lane).filter_map(good)
        });
        all.collect()
    }

    /// Until when the hold under `token` is good, if it is.
    pub(crate) fn held_until(&self, token: u64, now: Instant) -> Option<Instant> {
        let (held, holder) = self.hold_of(token)?;
        held.good_until(holder, now)
    }

    /// How the hold under `token` may be used until its end: a writer that is to become a reader
    /// is one.
    pub(crate) fn mode_of(&self, token: u64) -> Option<Mode> {
        let (held, _) = self.hold_of(token)?;
        Some(if held.downgrade == Downgrade::No { held.mode } else { Mode::Shared })
    }

    /// Whether the hold under `token` shares the key at the store, until its end.
    pub(crate) fn is_shared(&self, token: u64) -> Option<bool> {
        self.hold_of(token).map(|(held, _)| held.mode == Mode::Shared)
    }

    /// The number of a permit, until its guards are gone; 0 in other modes.
    pub(crate) fn slot_of(&self, token: u64) -> u32 {
        let lost = self.more.as_ref().and_then(|more| more.lost.get(&token));
        let held = || self.hold_of(token).map(|(held, _)| u32::from(held.slot));
        lost.map(|lost| lost.slot).or_else(held).unwrap_or(0)
    }
}
