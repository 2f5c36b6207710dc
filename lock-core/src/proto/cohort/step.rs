//! The next step of the driver, and the answers that it got.

use std::mem;

use super::held::Idle;
use super::*;
use crate::backend::{Attempt, Change, FaultKind};
use crate::ground::Plus as _;

impl<W, R> Cohort<W, R> {
    /// Ends what is over by now, then says what to do in this lane. `asking` and `leaving` tell
    /// whether a request of its open claim, or the withdrawal of an earlier one, is under way.
    pub(crate) fn step(
        &mut self,
        lane: usize,
        now: Instant,
        asking: bool,
        leaving: bool,
        fx: &mut Effects<W, R>,
    ) -> Step<R> {
        effort::spend();
        if lane == 0 {
            // The first of a turn.
            self.expire_seats(now, fx);
        }
        let was_behind_its_own = lane > 0 && self.is_in_line_behind_its_own();
        self.expire_holds(lane, now, fx);
        let step = match self.place(lane) {
            None | Some(Phase::Vacant) => self.step_vacant(lane, now, leaving),
            Some(Phase::Asking(_)) => self.step_asking(lane, now, asking, leaving),
            Some(Phase::Held(_)) => self.step_held(lane, now, asking, leaving, fx),
        };
        // The first lane was looked at before, and asks who else holds the key.
        fx.poke |= was_behind_its_own && !self.is_taken();
        match step {
            Step::Wait { until, listen } if lane == 0 => {
                let until = match (until, self.earliest) {
                    (Some(at), Some(earliest)) => Some(at.min(earliest)),
                    (at, earliest) => at.or(earliest),
                };
                Step::Wait { until, listen }
            }
            Step::Wait { until, listen } => {
                if let Some(beside) = self.beside_mut() {
                    beside.rest(lane, until, !listen);
                }
                Step::Wait { until, listen }
            }
            Step::Stop => {
                if let Some(beside) = self.beside_mut() {
                    beside.rest(lane, None, false);
                }
                Step::Stop
            }
            step => step,
        }
    }

    fn wait_until(&self, until: Option<Instant>) -> Step<R> {
        Step::Wait { until, listen: self.is_to_listen() }
    }

    /// Whether somebody here waits for a push. Else it would only matter to a hold that lasts, or
    /// to readers who might come: they are let in no more once a writer waits.
    pub(super) fn is_to_listen(&self) -> bool {
        self.has_room(0) || self.holder().is_none() || !self.line.is_empty() || self.has_watchers()
    }

    // ## Vacant => (Vacant | Asking)
    fn step_vacant(&mut self, lane: usize, now: Instant, leaving: bool) -> Step<R> {
        // Readers of a claim are known of the first lane alone.
        let is_here = |terms: &Terms| lane == 0 || matches!(terms.mode, Mode::Permit { .. });
        let Some(mut terms) = self.wanted_claim().filter(is_here) else {
            let is_idle = self.line.is_empty() && !leaving;
            return if is_idle { Step::Stop } else { self.wait_until(None) };
        };
        if leaving && !terms.queues {
            // A claim that may not queue must not find the place of our own former claim taken.
            return self.wait_until(None);
        }
        if let Some(at) = self.ask_not_before()
            && now < at
        {
            return self.wait_until(Some(at));
        }
        // Answers to an earlier claim say nothing about this one.
        if let Some(more) = &mut self.more {
            more.ahead = None;
            terms.tokens_likely = if terms.mode == Mode::Shared { more.let_in } else { 0 };
        }
        let (asked, answered, given_back) = (self.behind_all(now), false, false);
        self.put(lane, Phase::Asking(Asking { terms, ask_at: now, asked, answered, given_back }));
        Step::Open(terms)
    }

    // ## Asking => (Asking | Vacant)
    fn step_asking(&mut self, lane: usize, now: Instant, asking: bool, leaving: bool) -> Step<R> {
        let Some(Phase::Asking(place)) = self.place(lane) else { return self.wait_until(None) };
        if asking {
            return self.wait_until(None);
        }
        let (ask_at, answered) = (place.ask_at, place.answered);
        let Terms { lease, mode, queues, .. } = place.terms;
        let unjoined = !queues && answered;
        if unjoined {
            self.put(lane, Phase::Vacant);
            return Step::Forget;
        }
        if !queues || place.given_back || !self.is_for_somebody(lane, mode) {
            if leaving {
                return self.wait_until(None);
            }
            self.put(lane, Phase::Vacant);
            return Step::Leave { reply: None, lease };
        }
        if now >= ask_at {
            let asked = self.behind_all(now);
            if let Some(asking) = self.asking_in_mut(lane) {
                asking.asked = asked;
            }
            return Step::Attempt;
        }
        // What leaves may still hold the key.
        if lane > 0 || !answered || leaving || self.is_taken() {
            return self.wait_until(Some(ask_at));
        }
        if self.asks_for_rival(now) {
            return Step::Inspect;
        }
        self.wait_until(self.ask_for_rival_at().into_iter().chain([ask_at]).min())
    }

    // ## Held => (Held | Vacant)
    fn step_held(
        &mut self,
        lane: usize,
        now: Instant,
        asking: bool,
        leaving: bool,
        fx: &mut Effects<W, R>,
    ) -> Step<R> {
        let (mut wake_at, mut refill) = (None, false);
        self.end_rest(lane, now);
        if self.has_room(lane) {
            self.pass(lane, now, fx);
        }
        if self.has_room(lane) {
            match self.idle(lane, now) {
                Idle::Withdraw if self.holders_in(lane).next().is_some() => {
                    match self.ask_again_at(lane) {
                        Some(at) if now < at => wake_at = Some(at),
                        at => refill = at.is_some(),
                    }
                }
                Idle::Withdraw if asking || leaving => return self.wait_until(None),
                Idle::Withdraw => return self.give_back(lane),
                Idle::LingerUntil(until) | Idle::RestUntil(until) => wake_at = Some(until),
                Idle::Forget if asking => return self.wait_until(None),
                Idle::Forget => {
                    self.put(lane, Phase::Vacant);
                    return Step::Forget;
                }
                Idle::Refill => refill = true,
                Idle::Pass => {}
            }
        }
        let limit = self.limit_in(lane).map(|(until, _)| until);
        let Some(held) = self.held_in_mut(lane) else { return self.wait_until(wake_at) };
        if refill {
            held.is_asked_for();
        }
        // A hold that only rests is not made to last for longer.
        let is_well = held.standing == Standing::Good && !held.has_failed();
        let rests = held.rests(now).is_some() && !held.outlasts_its_lease() && is_well;
        let is_due = now >= held.clock.renew_at() && !rests;
        if !asking && (is_due || held.refresh == Refresh::Due) {
            held.refilling = refill;
            // After one that failed the lease comes first: a store may renew what it cannot share.
            let is_due = held.downgrade == Downgrade::Due && !held.has_failed();
            return if is_due { Step::Downgrade } else { Step::Renew };
        }
        let mut wake_at =
            wake_at.map_or(held.clock.valid_until(), |at| at.min(held.clock.valid_until()));
        // While it is asked, when that is due next: the timer stays where it is with the answer.
        if !rests && (!asking || held.clock.renew_at() > now) {
            wake_at = wake_at.min(held.clock.renew_at());
        }
        if let Some(limit) = limit {
            wake_at = wake_at.min(limit);
        }
        self.wait_until(Some(wake_at))
    }

    fn give_back(&mut self, lane: usize) -> Step<R> {
        let Some(held) = self.held_in_mut(lane) else { return Step::Forget };
        let (reply, lease, mode) = (held.reply.take(), held.lease, held.mode);
        if mode == Mode::Shared {
            let acquired = self.acquired();
            let more = self.more();
            more.let_in = u32::try_from(acquired - more.acquired_before).unwrap_or(u32::MAX);
        }
        self.put(lane, Phase::Vacant);
        self.forget_rival();
        Step::Leave { reply, lease }
    }

    /// An attempt that was sent at `sent` was answered, or not; `pause` is how long to leave a
    /// store alone that did not.
    pub(crate) fn attempted(
        &mut self,
        lane: usize,
        sent: Instant,
        answer: Result<Attempt, Fault>,
        now: Instant,
        pause: impl FnOnce(u32) -> Duration,
        fx: &mut Effects<W, R>,
    ) {
        let moved = answer.as_ref().is_err_and(|fault| self.has_moved(fault));
        let Some(asking) = self.asking_in_mut(lane) else { return };
        let answer = answer.and_then(with_token);
        asking.answered = answer.is_ok();
        let (terms, asked) = (asking.terms, asking.terms.replicas);
        self.note(lane);
        let Some(asking) = self.asking_in_mut(lane) else { return };
        match answer {
            Ok(Attempt::Granted(grant)) => {
                self.answered(None, now);
                self.granted(lane, &terms, sent, grant, now, fx);
            }
            Ok(Attempt::Blocked { ahead, recheck }) => {
                asking.ask_at = now.plus(recheck);
                let asked = asking.asked;
                self.answered(Some(ahead), now);
                self.fail_tries_in_vain(terms.mode, Some(asked), fx);
            }
            Err(fault) if moved => {
                asking.ask_at = now;
                self.forget_failures();
                self.fail_tries(&Verdict::Unavailable(fault.clone()), fx);
                self.more().trouble = Some(fault);
            }
            Err(fault) if matches!(fault.kind(), FaultKind::OtherLimit(_)) => {
                let FaultKind::OtherLimit(in_use) = fault.kind() else { return };
                asking.given_back = true;
                let mode = asking.terms.mode;
                self.answered(None, now);
                self.fail_if(|ask| ask.terms.mode == mode, &Verdict::OtherLimit(in_use), fx);
            }
            Err(fault) if is_unreplicated(&fault, asking) => {
                asking.given_back = true;
                // The store did answer.
                self.answered(None, now);
                if !asked.is_some_and(|asked| self.fail_unreplicated(asked, &fault, fx)) {
                    // The client that asked for it has left. A store that says so of every grant
                    // must not be asked without end.
                    self.more().ask_not_before = Some(now.plus(pause(1)));
                }
            }
            Err(fault) => {
                let more = self.more();
                more.failures += 1;
                let again = now.plus(pause(more.failures));
                more.ask_not_before = Some(again);
                if let Some(asking) = self.asking_in_mut(lane) {
                    asking.ask_at = again;
                }
                let verdict = Verdict::Unavailable(fault.clone());
                if matches!(fault.kind(), FaultKind::Transient | FaultKind::Superseded) {
                    self.fail_tries(&verdict, fx);
                } else {
                    self.fail_all(&verdict, fx);
                }
                self.more().trouble = Some(fault);
            }
        }
    }

    fn answered(&mut self, ahead: Option<Option<u32>>, now: Instant) {
        self.forget_trouble();
        self.answered_at = Some(now);
        self.forget_failures();
        if ahead.is_some() {
            self.more().ahead = ahead;
        }
    }

    /// Whether another server is to be asked at once: the first time in a row, as a store may know
    /// no better the next time.
    pub(super) fn has_moved(&self, fault: &Fault) -> bool {
        let again = self.trouble().is_some_and(Fault::is_superseded);
        fault.is_superseded() && !again
    }

    /// It has answered.
    pub(super) fn forget_trouble(&mut self) {
        if let Some(more) = &mut self.more {
            more.trouble = None;
        }
    }

    /// The failures so far say nothing of what comes: it answered, or another server is asked.
    fn forget_failures(&mut self) {
        if let Some(more) = &mut self.more {
            (more.failures, more.ask_not_before) = (0, None);
        }
    }

    /// The backend pushed something.
    pub(crate) fn changed(&mut self, lane: usize, change: Change, now: Instant) {
        if change == Change::Elsewhere {
            self.forget_failures();
        }
        let not_before = self.ask_not_before();
        match self.place_mut(lane) {
            // It was meant for a claim that held the key.
            Some(Phase::Asking(_)) if change == Change::Tried => {}
            // A store that did not answer is left alone for its pause, whatever it pushes.
            Some(Phase::Asking(asking)) => {
                asking.ask_at = not_before.map_or(now, |at| at.max(now));
            }
            Some(Phase::Held(held)) => {
                // Also where it was cut off: what it was to be told may be lost.
                held.contested = true;
                match change {
                    Change::Here => held.is_asked_for(),
                    Change::Elsewhere => held.must_be_confirmed(),
                    Change::Tried => held.linger = None,
                }
            }
            Some(Phase::Vacant) | None => {}
        }
        self.note(lane);
    }

    /// Takes the cohort off the registry if there is nothing left to do; only its driver may,
    /// as long as it has one.
    pub(crate) fn retire(&mut self, by_driver: bool) -> bool {
        let is_open = self.open_mode().is_some();
        if is_open || !self.line.is_empty() || self.retired || (self.has_driver && !by_driver) {
            return false;
        }
        self.retired = true;
        true
    }

    /// There is nobody to ask the store: those who wait are told why.
    pub(crate) fn unserved(&mut self, why: Fault, fx: &mut Effects<W, R>) {
        self.fail_all(&Verdict::Unavailable(why), fx);
    }

    /// The driver is gone, with its runtime or by a panic: its claim dies at the store with the
    /// lease. The hold is over for its guard, and those who wait are told why. What is left of its
    /// claims is to be dropped without the mutex: releases that wait are told by it.
    #[must_use]
    pub(crate) fn orphan(
        &mut self,
        why: Fault,
        now: Instant,
        fx: &mut Effects<W, R>,
    ) -> impl Sized + use<W, R> {
        self.lose_all(LossReason::Shutdown, now, fx);
        let beside = self.more.as_mut().and_then(|more| more.beside.take());
        let left = (mem::replace(&mut self.place, Phase::Vacant), beside);
        self.has_driver = false;
        self.fail_all(&Verdict::Unavailable(why), fx);
        left
    }
}

/// Whether fewer replicas than were asked for have the grant.
fn is_unreplicated(fault: &Fault, asking: &Asking) -> bool {
    fault.found_of_replicas().is_some() && asking.terms.replicas.is_some()
}

/// A hold without a token cannot be given to anybody, and asking again would be answered the same.
fn with_token(attempt: Attempt) -> Result<Attempt, Fault> {
    match attempt {
        Attempt::Granted(grant) if grant.tokens.left() == 0 => {
            Err(Fault::new(FaultKind::Refused, "the store granted the lock without a token"))
        }
        attempt => Ok(attempt),
    }
}
