//! A lane of a driver: one claim after the other, and what is under way for it.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::host::{Host, ReleaseReply};
use super::leave;
use crate::backend::{
    Attempt, Change, ClaimId, DynClaim, Fault, Listening, Mode, Renewal, Request, Withdrawal,
};
use crate::engine::observe::Asked;
use crate::ground::{FAULT_PAUSES, clock, foreign};
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

/// An event that a lane waited for.
enum Event {
    Attempted(Claimed, Instant, Result<Attempt, Fault>),
    Renewed(Claimed, Instant, Result<Renewal, Fault>),
    Left(Claimed, Result<Withdrawal, Fault>),
    Changed(Claimed, Option<Change>),
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

/// The state that a turn has left a lane in.
pub(super) enum Turned {
    /// It waits, until then.
    Rests(Option<Instant>),
    /// It has no claim, and needs none.
    Idle,
    /// The conductor is to go on with it.
    TakenOn,
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

    pub(super) fn is_permit(&self) -> bool {
        self.is_permit
    }

    /// Hears of an answer, or a push; whether there was one.
    #[inline]
    pub(super) fn look<K: Host>(
        &mut self,
        cell: &Arc<K>,
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
        // First: another process waits for it.
        if let Some(leaving) = &mut self.leaving
            && let Poll::Ready((claim, answer)) = Pin::new(&mut leaving.asked).poll(cx)
        {
            return Some(Event::Left(claim, answer));
        }
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
        None
    }

    /// Does what is to be done now in this lane, which is number `at`.
    /// `leaves` is whether the claim of any lane leaves: a new one is not to find its place taken.
    pub(super) fn turn<K: Host>(
        &mut self,
        cell: &Arc<K>,
        at: usize,
        now: Instant,
        leaves: bool,
    ) -> Turned {
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
                    self.open = Open::Idle(cell.claim(ClaimId::random(), terms));
                    self.attempt(cell, now);
                }
                Step::Attempt => self.attempt(cell, now),
                // A caller may be blocked in the middle of it, and its runtime with it.
                Step::Renew | Step::Downgrade if cell.is_handed_over() => {
                    cell.cohort().look_at(at);
                    return Turned::TakenOn;
                }
                Step::Renew => self.renew(cell, at, now, |claim| claim.renew()),
                Step::Downgrade => self.renew(cell, at, now, |claim| claim.downgrade()),
                Step::Leave { reply, lease } => self.leave(cell, reply, lease, now),
                Step::Inspect => cell.asks_for_rival(now),
                Step::Forget => self.open = Open::None,
                Step::Wait { until, listen } => {
                    self.listen((listen || cell.is_grown_up()) && !self.heard);
                    return Turned::Rests(until);
                }
                Step::Stop => return Turned::Idle,
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

    fn attempt<K: Host>(&mut self, cell: &Arc<K>, now: Instant) {
        let Some(claim) = self.claim() else { return };
        self.open = Open::Attempt(Asked::new(cell.key(), claim.attempt(), now));
        self.is_fresh = true;
    }

    fn renew<K: Host>(
        &mut self,
        cell: &Arc<K>,
        at: usize,
        now: Instant,
        ask: impl FnOnce(Claimed) -> Request<Renewal>,
    ) {
        let Some(claim) = self.claim() else { return };
        cell.cohort().renewing(at, now);
        self.open = Open::Renew(Asked::new(cell.key(), ask(claim), now));
        self.is_fresh = true;
    }

    fn leave<K: Host>(
        &mut self,
        cell: &Arc<K>,
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
    fn hear<K: Host>(&mut self, cell: &Arc<K>, at: usize, event: Event, now: Instant) {
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

    fn left<K: Host>(&mut self, cell: &Arc<K>, claim: Claimed, answer: Result<Withdrawal, Fault>) {
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
