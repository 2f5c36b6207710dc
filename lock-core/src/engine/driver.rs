//! The driver of a busy key talks to the store. It only does I/O: the cohort decides, the driver
//! asks the store and reports. It has a lane for each lane of the cohort: one, but for permits.
//!
//! It lives in the key's cell and is no task. Whoever waits for the key polls it, and the conductor
//! polls it where nobody does. Requests run to their end whatever becomes of the callers. While one
//! is under way, the driver goes on to watch the lease, the waits and the pokes. So a store that
//! hangs holds up nothing that the clock decides.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::beside::Others;
use super::cell::{KeyCell, ReleaseReply};
use super::observe::Asked;
use super::{foreign, leave};
use crate::backend::{
    Attempt, Change, ClaimId, DynClaim, Fault, FaultKind, Listening, Mode, Renewal, Request, Terms,
    Withdrawal,
};
use crate::ground::{FAULT_PAUSES, clock};
use crate::proto::{Effects, ReleaseAnswer, Step};

type Claimed = Box<dyn DynClaim>;

/// The open claim, with what it does.
#[derive(Default)]
enum Open {
    /// There is none.
    #[default]
    None,
    // ## Idle => (Listening | Attempt | Renew | None)
    Idle(Claimed),
    // ## Listening => (Idle | Attempt | Renew | None)
    Listening(Listening),
    // ## Attempt => Idle
    Attempt(Asked<Attempt>),
    // ## Renew => Idle
    Renew(Asked<Renewal>),
}

/// The withdrawal of a claim.
struct Leaving {
    asked: Asked<Withdrawal>,
    reply: Option<ReleaseReply>,
    lease: Duration,
}

/// What a lane waited for.
enum Event {
    Attempted(Claimed, Instant, Result<Attempt, Fault>),
    Renewed(Claimed, Instant, Result<Renewal, Fault>),
    Left(Claimed, Result<Withdrawal, Fault>),
    Changed(Claimed, Option<Change>),
}

/// What a busy key asks the store, and what is under way. A future but for its name: what is always
/// there is the cell's, and is lent to it at each poll.
#[derive(Default)]
pub(super) struct Driver {
    first: Lane,
    /// From the second permit on, and of a candidate. On the heap, as most keys have none.
    others: Option<Box<Others>>,
}

/// One claim after the other.
#[derive(Default)]
pub(super) struct Lane {
    open: Open,
    /// On the heap, as a key is held for longer than it is left.
    leaving: Option<Box<Leaving>>,
    /// The open claim reported a change that no request has answered yet.
    heard: bool,
    /// Something was begun that was not polled yet.
    is_fresh: bool,
    /// The latest claim is for a permit.
    is_permit: bool,
}

/// What a lane has come to.
pub(super) enum Turn {
    /// It waits, until then.
    Rests(Option<Instant>),
    /// It has no claim, and needs none.
    Idle,
    /// A candidate is to have a claim, which publishes what it says of itself.
    Opens(Terms),
    /// The conductor is to go on with it.
    TakenOn,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

/// Why a key is served no more.
pub(super) fn gone() -> Fault {
    let why = "what served this lock is gone: it panicked, or its runtime has ended";
    Fault::new(FaultKind::Transient, why)
}

impl Driver {
    /// That of a key; with a `value`, that of one who stands for election.
    pub(super) fn new(value: Option<&Arc<str>>) -> Self {
        Self { first: Lane::default(), others: value.map(Others::of_candidate) }
    }

    /// Drives its key, `cell`, until that is idle. `now` is the time of this poll. It is read once
    /// a poll, as nothing in between waits.
    pub(super) fn poll(
        &mut self,
        cell: &Arc<KeyCell>,
        now: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let mut is_first = true;
        loop {
            let heard = self.hear(cell, now, cx);
            if !heard && !mem::take(&mut is_first) {
                return Poll::Pending;
            }
            is_first = false;
            if !self.turn(cell, now) {
                return Poll::Ready(());
            }
            if !heard && !self.is_fresh() {
                return Poll::Pending;
            }
        }
    }

    /// Whether the claim of any lane leaves.
    fn leaves(&self) -> bool {
        self.first.leaves() || self.others.as_ref().is_some_and(|others| others.leaves())
    }

    fn is_fresh(&self) -> bool {
        self.first.is_fresh || self.others.as_ref().is_some_and(|others| others.is_fresh())
    }

    /// Answers and pushes; whether there were any.
    fn hear(&mut self, cell: &Arc<KeyCell>, now: Instant, cx: &mut Context<'_>) -> bool {
        let some = self.first.look(cell, 0, now, cx);
        self.others.as_mut().is_some_and(|others| others.hear(cell, now)) || some
    }

    /// Does what is to be done now; `false` where nothing is left to do. Beside the first lane, it
    /// looks at those in which something has changed.
    fn turn(&mut self, cell: &Arc<KeyCell>, now: Instant) -> bool {
        let (mut at, mut first) = (0, Turn::Idle);
        loop {
            let turned = match at {
                0 => {
                    let leaves = self.others.is_some() && self.leaves();
                    self.first.turn(cell, 0, now, leaves)
                }
                at => {
                    let leaves = self.leaves();
                    self.others.get_or_insert_with(|| Others::new(cell)).turn(cell, at, now, leaves)
                }
            };
            match turned {
                Turn::Opens(terms) => {
                    self.open_candidate(cell, terms, now);
                    continue;
                }
                Turn::TakenOn => return true,
                turned if at == 0 => first = turned,
                Turn::Rests(_) | Turn::Idle => {}
            }
            if let Some(next) = self.next_lane(cell, now) {
                at = next;
                continue;
            }
            let until = match first {
                Turn::Rests(until) => until,
                _ if self.is_busy_beside(cell) => None,
                _ if cell.shared.retire(cell, true) => return false,
                _ => {
                    self.others = self.others.take().filter(|others| others.value().is_some());
                    at = 0;
                    continue;
                }
            };
            let beside = self.others.as_mut().and_then(|others| others.rest(cell, now));
            cell.rests(now, until.into_iter().chain(beside).min());
            return true;
        }
    }

    fn is_busy_beside(&self, cell: &KeyCell) -> bool {
        let is_busy = |others: &Others| others.leaves() || cell.cohort().opened() > 1;
        self.others.as_deref().is_some_and(is_busy)
    }

    /// The next lane in which there is something to do.
    #[inline]
    fn next_lane(&self, cell: &Arc<KeyCell>, now: Instant) -> Option<usize> {
        if self.others.is_none() && !self.first.is_permit {
            return None;
        }
        let leaves = self.leaves();
        cell.cohort().next_lane(now, leaves)
    }

    /// A candidate has one lane.
    #[cold]
    fn open_candidate(&mut self, cell: &Arc<KeyCell>, terms: Terms, now: Instant) {
        let (backend, id) = (&cell.shared.backend, ClaimId::random());
        self.first.open = match self.others.as_ref().and_then(|others| others.value()) {
            Some(value) => Open::Idle(backend.candidate(cell.key(), id, terms, value)),
            None => Open::Idle(backend.claim(cell.key(), id, terms)),
        };
        self.first.attempt(cell, now);
    }
}

impl Lane {
    fn is_open(&self) -> bool {
        !matches!(self.open, Open::None)
    }

    pub(super) fn leaves(&self) -> bool {
        self.leaving.is_some()
    }

    /// It has no claim, and none that leaves.
    pub(super) fn is_over(&self) -> bool {
        !self.is_open() && !self.leaves()
    }

    /// Something is under way.
    pub(super) fn is_waiting(&self) -> bool {
        !matches!(self.open, Open::None | Open::Idle(_)) || self.leaves()
    }

    /// Something was begun that was not polled yet.
    pub(super) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Hears of an answer, or a push; whether there was one.
    #[inline]
    pub(super) fn look(
        &mut self,
        cell: &Arc<KeyCell>,
        at: usize,
        now: Instant,
        cx: &mut Context<'_>,
    ) -> bool {
        let event = self.event(cx);
        let some = event.is_some();
        if let Some(event) = event {
            self.hear(cell, at, event, now);
        }
        some
    }

    /// An answer, or a push.
    #[inline]
    fn event(&mut self, cx: &mut Context<'_>) -> Option<Event> {
        self.is_fresh = false;
        let asked = match &mut self.open {
            Open::None | Open::Idle(_) => Poll::Pending,
            Open::Attempt(asked) => {
                let sent = asked.sent();
                let answered = Pin::new(asked).poll(cx);
                answered.map(|(claim, answer)| Event::Attempted(claim, sent, answer))
            }
            Open::Renew(asked) => {
                let sent = asked.sent();
                let answered = Pin::new(asked).poll(cx);
                answered.map(|(claim, answer)| Event::Renewed(claim, sent, answer))
            }
            Open::Listening(listening) => {
                listening.poll(cx).map(|(claim, change)| Event::Changed(claim, change))
            }
        };
        if let Poll::Ready(event) = asked {
            self.open = Open::None;
            return Some(event);
        }
        if let Some(leaving) = &mut self.leaving
            && let Poll::Ready((claim, answer)) = Pin::new(&mut leaving.asked).poll(cx)
        {
            return Some(Event::Left(claim, answer));
        }
        None
    }

    /// Does what is to be done now in this lane, which is number `at`.
    /// `leaves` is whether the claim of any lane leaves: a new one is not to find its place taken.
    pub(super) fn turn(
        &mut self,
        cell: &Arc<KeyCell>,
        at: usize,
        now: Instant,
        leaves: bool,
    ) -> Turn {
        loop {
            let mut fx = Effects::none();
            let asking = matches!(self.open, Open::Attempt(_) | Open::Renew(_));
            let leaving = self.leaving.is_some() || (leaves && !self.is_open());
            let step = cell.cohort().step(at, now, asking, leaving, &mut fx);
            // Most steps leave nothing to do, and effects are large.
            if fx.is_none() {
                mem::forget(fx);
            } else {
                cell.apply_driven(fx);
            }
            match step {
                Step::Open(terms) => {
                    self.is_permit = matches!(terms.mode, Mode::Permit { .. });
                    if cell.is_candidate() {
                        return Turn::Opens(terms);
                    }
                    let id = ClaimId::random();
                    self.open = Open::Idle(cell.shared.backend.claim(cell.key(), id, terms));
                    self.attempt(cell, now);
                }
                Step::Attempt => self.attempt(cell, now),
                // A caller may be blocked in the middle of it, and its runtime with it.
                Step::Renew | Step::Downgrade if !cell.shared.conductor.is_here() => {
                    cell.cohort().look_at(at);
                    cell.shared.conductor.take_on(cell);
                    return Turn::TakenOn;
                }
                Step::Renew => self.renew(cell, at, now, |claim| claim.renew()),
                Step::Downgrade => self.renew(cell, at, now, |claim| claim.downgrade()),
                Step::Leave { reply, lease } => self.leave(cell, reply, lease, now),
                Step::Forget => self.open = Open::None,
                Step::Wait { until, listen } => {
                    self.listen((listen || cell.is_grown_up()) && !self.heard);
                    return Turn::Rests(until);
                }
                Step::Stop => return Turn::Idle,
            }
        }
    }

    /// The open claim, for a request.
    fn claim(&mut self) -> Option<Claimed> {
        self.heard = false;
        match mem::take(&mut self.open) {
            Open::Idle(claim) => Some(claim),
            Open::Listening(listening) => listening.stop(),
            other => {
                self.open = other;
                None
            }
        }
    }

    fn listen(&mut self, listens: bool) {
        self.open = match mem::take(&mut self.open) {
            Open::Idle(claim) if listens => {
                self.is_fresh = true;
                Open::Listening(claim.changed())
            }
            Open::Listening(listening) if !listens => {
                listening.stop().map_or(Open::None, Open::Idle)
            }
            open => open,
        };
    }

    fn attempt(&mut self, cell: &KeyCell, now: Instant) {
        let Some(claim) = self.claim() else { return };
        self.open = Open::Attempt(Asked::new(cell.key(), claim.attempt(), now));
        self.is_fresh = true;
    }

    fn renew(
        &mut self,
        cell: &KeyCell,
        at: usize,
        now: Instant,
        ask: impl FnOnce(Claimed) -> Request<Renewal>,
    ) {
        let Some(claim) = self.claim() else { return };
        cell.cohort().renewing(at, now);
        self.open = Open::Renew(Asked::new(cell.key(), ask(claim), now));
        self.is_fresh = true;
    }

    fn leave(
        &mut self,
        cell: &KeyCell,
        reply: Option<ReleaseReply>,
        lease: Duration,
        now: Instant,
    ) {
        let Some(claim) = self.claim() else { return };
        let asked = Asked::new(cell.key(), claim.withdraw(), now);
        self.leaving = Some(Box::new(Leaving { asked, reply, lease }));
        self.is_fresh = true;
    }

    // A large event is not to be moved about.
    #[inline(always)]
    fn hear(&mut self, cell: &Arc<KeyCell>, at: usize, event: Event, now: Instant) {
        let mut fx = Effects::none();
        match event {
            Event::Attempted(claim, sent, answer) => {
                self.open = Open::Idle(claim);
                let pause = |failures| FAULT_PAUSES.pause(failures, clock::random_bits());
                cell.cohort().attempted(at, sent, answer, now, pause, &mut fx);
            }
            Event::Renewed(claim, sent, answer) => {
                self.open = Open::Idle(claim);
                cell.cohort().renewed(at, sent, answer, now, &mut fx);
            }
            Event::Left(claim, answer) => {
                cell.cohort().look_at(at);
                return self.left(cell, claim, answer);
            }
            Event::Changed(claim, change) => {
                self.open = Open::Idle(claim);
                let Some(change) = change else { return };
                self.heard = change != Change::Tried;
                cell.cohort().changed(at, change, now);
            }
        }
        cell.apply_driven(fx);
    }

    fn left(&mut self, cell: &Arc<KeyCell>, claim: Claimed, answer: Result<Withdrawal, Fault>) {
        let Some(leaving) = self.leaving.take() else { return };
        let Leaving { asked, reply, lease } = *leaving;
        let answer = match answer {
            Ok(Withdrawal::Released) => ReleaseAnswer::Released,
            Ok(Withdrawal::NotHeld | Withdrawal::Elsewhere) => ReleaseAnswer::NotHeld,
            Err(fault) if fault.is_transient() => {
                let since = asked.sent();
                return leave::in_background(cell, claim, reply, fault, since, lease);
            }
            Err(fault) => ReleaseAnswer::Unknown(fault),
        };
        if let Some(reply) = reply {
            foreign::answer(reply, answer);
        }
    }
}
