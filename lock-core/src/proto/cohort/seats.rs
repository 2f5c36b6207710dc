//! Arriving, waiting, giving up.

use super::held::Idle;
use super::lanes::lanes_max;
use super::*;
use crate::backend::FaultKind;

impl<W, R> Cohort<W, R> {
    /// A waiter arrives. `waker` is asked for only if it has to wait.
    pub(crate) fn enter(
        &mut self,
        ask: &Ask,
        now: Instant,
        waker: impl FnOnce() -> W,
        fx: &mut Effects<W, R>,
    ) -> Entry {
        if self.retired {
            return Entry::Retired;
        }
        if self.client == Client::Closed {
            return Entry::Closed;
        }
        if let Some(token) = self.take_idle(ask, now, fx) {
            return Entry::Granted(token);
        }
        if self.line.len() >= ask.waiters_max {
            return Entry::Full(self.line.len());
        }
        if let Some(overload) = self.overload(ask, now) {
            self.count().refused += 1;
            return Entry::Refused(overload);
        }
        let state = match self.refusal(ask) {
            Some(verdict) => SeatState::Over(verdict),
            None => SeatState::Waiting(waker()),
        };
        let over = matches!(state, SeatState::Over(_));
        let entered = self.behind_all(now);
        let seat = self.line.push(Seat { ask: *ask, entered, state });
        if over {
            self.line.leave(seat);
            return Entry::Seated(seat);
        }
        if self.earliest.is_none_or(|earliest| ask.deadline < earliest) {
            self.earliest = Some(ask.deadline);
            fx.poke = true;
        }
        let may_open = !self.is_full_for(ask.terms.mode);
        if let Phase::Held(held) = &mut self.place
            && let Some(holder) = &held.holder
            && !may_open
        {
            let since = holder.since;
            self.admission.get_or_insert_with(|| Box::new(Admission::new(since)));
            // So that the release need not wait for one.
            held.ask_for_tokens(held.wanting(&self.line), ask, fx);
        }
        // A claim that was to leave, as nobody was in line, may stay.
        let is_back = matches!(self.place, Phase::Asking(_)) && self.line.len() == 1;
        fx.poke |= may_open || is_back || self.has_room(0) || self.opened() > 1;
        // With one who may wait, also those before it have their claims while others leave.
        fx.poke |= self.is_claim_wanted();
        if !std::mem::replace(&mut self.has_driver, true) {
            fx.spawn = true;
        }
        Entry::Seated(seat)
    }

    /// The time, for one that comes behind all who are in line. Each thread reads the clock for itself,
    /// and one that reads it once for several answers finds who came since in the future.
    pub(super) fn behind_all(&self, now: Instant) -> Instant {
        let last = self.line.tail().and_then(|id| self.line.get(id));
        last.map_or(now, |last| now.max(last.entered))
    }

    /// Why a try is over before it began: those here say otherwise of how many permits there are,
    /// or it may not stand in line and would have to.
    fn refusal(&self, ask: &Ask) -> Option<Verdict> {
        if let Some(other) = self.other_limit(ask.terms.mode) {
            return Some(Verdict::OtherLimit(other));
        }
        if ask.terms.queues {
            return None;
        }
        let mode = ask.terms.mode;
        // Readers let it in, at the latest with the next renewal, which brings tokens.
        let is_let_in = mode == Mode::Shared && self.held_in(0).is_some_and(|it| it.lets_in(ask));
        let is_full =
            self.busy() >= lanes_max(mode) || (self.is_taken() && self.open_mode() != Some(mode));
        let is_behind = self.line.first().is_some_and(|seat| seat.ask.terms.queues);
        match self.trouble() {
            _ if is_full && (is_behind || !is_let_in) => {}
            _ if !is_behind => return None,
            // Nobody is known to be in the way of those who wait here.
            Some(fault) => return Some(Verdict::Unavailable(Fault::clone(fault))),
            None => {}
        }
        Some(Verdict::TimedOut(self.blocked_by()))
    }

    /// How many permits there are, as those say who hold or want some here, if it is not so many.
    fn other_limit(&self, mode: Mode) -> Option<u32> {
        let Mode::Permit { of } = mode else { return None };
        // The first permit in line is the head, or not among those who are like it.
        let behind = self.line.iter_from(self.line.behind_run());
        let wanted = self.line.first().into_iter().chain(behind).map(|seat| seat.ask.terms.mode);
        let open = self.open_mode().into_iter();
        // All who are here agree, so the first of them will do.
        let first = open.chain(wanted).find_map(|mode| match mode {
            Mode::Permit { of: other } => Some(other),
            _ => None,
        });
        first.filter(|other| *other != of)
    }

    /// The lock is granted and nobody uses it: no I/O is needed.
    fn take_idle(&mut self, ask: &Ask, now: Instant, fx: &mut Effects<W, R>) -> Option<u64> {
        if !self.line.is_empty() {
            return None;
        }
        let lane = self.lane_to_take(ask, now)?;
        let is_beside = self.holder().is_some();
        // A claim that is to be given back as soon as nothing else is under way has no timer.
        let is_timed = matches!(self.idle(lane, now), Idle::LingerUntil(_));
        let held = self.held_in_mut(lane)?;
        let is_timed = is_timed || held.holder.is_some();
        let token = held.tokens.take()?;
        if let Some(reply) = held.reply.take() {
            fx.reply = Some((reply, ReleaseAnswer::Released));
        }
        let further = held.hold(token, ask, now);
        held.handed_off += u32::from(held.wanted.is_some());
        held.ask_for_tokens(0, ask, fx);
        // Also for what was pushed while it was to be given back.
        fx.poke |= held.refresh == Refresh::Due || !is_timed;
        match further {
            Some(reader) => self.more().readers.push(reader),
            None => self.note(lane),
        }
        if let Some(admission) = self.admission.as_mut().filter(|_| !is_beside) {
            admission.begins(now);
        }
        fx.poke |= ask.hold_limit.is_some();
        self.count().handoffs_local += 1;
        fx.changes.granted += 1;
        fx.changes.handed_on_here += 1;
        Some(token)
    }

    /// The first lane whose claim one who comes may have at once.
    fn lane_to_take(&self, ask: &Ask, now: Instant) -> Option<usize> {
        let beside = self.beside().into_iter().flat_map(Beside::idle);
        let mut lanes = std::iter::once(0).chain(beside);
        lanes.find(|lane| self.may_take(*lane, ask, now))
    }

    /// Whether one who comes may have the claim of this lane at once.
    fn may_take(&self, lane: usize, ask: &Ask, now: Instant) -> bool {
        let Some(held) = self.held_in(lane).filter(|held| held.has_room()) else { return false };
        // One more reader beside others is let in as one more hand-off would be.
        let is_beside = held.holder.is_some();
        let may = if is_beside { held.may_hand_off(ask, now) } else { held.wanted.is_none() };
        let awaited = !may || held.revoke_requested || !held.suits(ask);
        let good = !held.is_over() && held.clock.is_valid(now) && !held.is_stale_for(ask, now);
        // Also a moment longer, until the driver has looked whether it is to be confirmed.
        !awaited && good && !held.is_resting()
    }

    /// Reads what became of a seat; anything but [`Verdict::Waiting`] gives the seat up.
    pub(crate) fn poll(
        &mut self,
        seat: SeatId,
        now: Instant,
        refresh: impl FnOnce(&mut W),
    ) -> Verdict {
        match self.line.get_mut(seat).map(|seat| &mut seat.state) {
            Some(SeatState::Waiting(waker)) => {
                refresh(waker);
                return Verdict::Waiting;
            }
            Some(SeatState::Over(_)) => {}
            None => return Verdict::Closed,
        }
        match self.line.remove(seat) {
            Some(Seat { state: SeatState::Over(Verdict::Granted(token)), .. })
                if self.held_until(token, now).is_none() =>
            {
                Verdict::TooLate(token)
            }
            Some(Seat { state: SeatState::Over(verdict), .. }) => verdict,
            _ => Verdict::Closed,
        }
    }

    /// A waiter goes away without reading what became of it. A grant that it did not take is
    /// passed on. Its waker is the caller's to drop, after the mutex.
    #[must_use]
    pub(crate) fn cancel(
        &mut self,
        seat: SeatId,
        now: Instant,
        fx: &mut Effects<W, R>,
    ) -> Option<W> {
        let was_head = self.line.head() == Some(seat);
        let gone = self.line.remove(seat)?;
        if let SeatState::Over(Verdict::Granted(token)) = gone.state {
            // Nobody asks what became of it, and nothing was done under it.
            if let Some(lane) = self.spot_of(token).map(|spot| spot.lane())
                && let Some(held) = self.held_in_mut(lane)
            {
                held.rests_until = None;
            }
            self.release(token, || None, now, fx);
        }
        fx.poke |= was_head || self.is_to_look();
        match gone.state {
            SeatState::Waiting(waker) => Some(waker),
            SeatState::Over(_) => None,
        }
    }

    /// Ends the tries whose time is over.
    pub(super) fn expire_seats(&mut self, now: Instant, fx: &mut Effects<W, R>) {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return;
        }
        self.earliest = None;
        let mut at = self.line.head();
        while let Some(id) = at {
            at = self.line.after(id);
            let Some(seat) = self.line.get(id) else { continue };
            let deadline = seat.ask.deadline;
            if deadline > now {
                self.earliest = Some(self.earliest.map_or(deadline, |other| other.min(deadline)));
            } else {
                let verdict = self.expiry(seat);
                self.count().timeouts += u64::from(matches!(verdict, Verdict::TimedOut(_)));
                self.fail(id, verdict, fx);
            }
        }
    }

    /// The answer to a waiter whose time is over. Where nobody here is in its way and the store has
    /// not answered since it came, that counts as out of reach: no rival is known of. One that came
    /// when its time was over left the store none.
    fn expiry(&self, seat: &Seat<W>) -> Verdict {
        let Seat { ask, entered, .. } = seat;
        let mode = ask.terms.mode;
        let is_in_the_way = || self.open_mode() != Some(mode) || self.is_full_for(mode);
        if self.is_taken() && is_in_the_way() {
            return Verdict::TimedOut(self.blocked_by());
        }
        match self.trouble() {
            Some(fault) => Verdict::Unavailable(Fault::clone(fault)),
            None if self.has_answered(*entered) || ask.deadline <= *entered => {
                Verdict::TimedOut(self.blocked_by())
            }
            None => Verdict::Unavailable(Fault::new(
                FaultKind::Transient,
                "the store did not answer within the wait",
            )),
        }
    }

    /// Whether the store has spoken since, or has put the open claim in line before.
    fn has_answered(&self, since: Instant) -> bool {
        matches!(&self.place, Phase::Asking(asking) if asking.answered)
            || self.beside().is_some_and(|beside| beside.in_line() > 0)
            || self.answered_at.is_some_and(|at| at >= since)
    }

    /// Whether the driver is to look when one has left the line. The last one out gives the claim's
    /// place in the store's line back; of permits, each does. What the head could not have, the
    /// next may, and one that stood behind another mode may have a claim of its own.
    fn is_to_look(&self) -> bool {
        self.line.is_empty() || self.opened() > 1 || self.is_claim_wanted()
    }

    /// Ends one try by its own clock: its driver may be on a runtime that stands still. A try that
    /// is over already, as another thread has granted it, stays what it is.
    pub(crate) fn expire(&mut self, seat: SeatId, fx: &mut Effects<W, R>) {
        let waits = |seat: &&Seat<W>| matches!(seat.state, SeatState::Waiting(_));
        let Some(waiting) = self.line.get(seat).filter(waits) else { return };
        let verdict = self.expiry(waiting);
        let was_head = self.line.head() == Some(seat);
        self.count().timeouts += u64::from(matches!(verdict, Verdict::TimedOut(_)));
        self.fail(seat, verdict, fx);
        fx.poke |= was_head || self.is_to_look();
    }

    pub(super) fn blocked_by(&self) -> BlockedBy {
        match self.holder() {
            Some(token) => BlockedBy::ThisClient { token: crate::FencingToken::new(token) },
            None => BlockedBy::Others { ahead: self.ahead() },
        }
    }

    /// Ends the tries of those who ask for what `is_over`.
    pub(super) fn fail_if(
        &mut self,
        is_over: impl Fn(&Ask) -> bool,
        verdict: &Verdict,
        fx: &mut Effects<W, R>,
    ) {
        let mut at = self.line.head();
        while let Some(id) = at {
            at = self.line.after(id);
            effort::spend();
            if self.line.get(id).is_some_and(|seat| is_over(&seat.ask)) {
                self.fail(id, verdict.clone(), fx);
            }
        }
    }

    /// Ends the tries that must not stand in line.
    pub(super) fn fail_tries(&mut self, verdict: &Verdict, fx: &mut Effects<W, R>) {
        if self.line.hasty() > 0 {
            self.fail_if(|ask| !ask.terms.queues, verdict, fx);
        }
    }

    /// A claim of this mode was answered. Ends the tries that must not stand in line and that no
    /// claim can serve: neither one under way, nor one that is still to be opened. Where the answer
    /// was that others hold the key, `blocked` is when it was asked for. It says nothing to those
    /// who came later: they have a claim of their own. So what is taken for later must be, or each
    /// answer is one for nobody, and the next claim is opened without an end.
    pub(super) fn fail_tries_in_vain(
        &mut self,
        mode: Mode,
        blocked: Option<Instant>,
        fx: &mut Effects<W, R>,
    ) {
        let (mut nth, hopes) = (self.line.hasty(), self.unanswered());
        let is_mixed = self.line.behind_run().is_some();
        if nth == 0 || (nth <= hopes && !is_mixed) {
            return;
        }
        let mut room = self.room_for(mode);
        let verdict = Verdict::TimedOut(self.blocked_by());
        let mut at = self.line.tail();
        // The first to come have the claims that are under way.
        while let Some(id) = at
            && (nth > hopes || (is_mixed && nth > 0))
        {
            at = self.line.before(id);
            effort::spend();
            let Some(Seat { ask, entered, .. }) = self.line.get(id) else { continue };
            if ask.terms.queues {
                continue;
            }
            nth -= 1;
            let may_ask = match blocked {
                None => nth < hopes + room,
                Some(asked) => *entered > asked && room > 0,
            };
            if ask.terms.mode != mode || !(nth < hopes || may_ask) {
                self.fail(id, verdict.clone(), fx);
            } else if nth >= hopes && blocked.is_some() {
                room -= 1;
            }
        }
    }

    /// Ends the tries that want what too few replicas did when the store was `asked` for it. Others
    /// want less, or give them more time. Whether there were any.
    pub(super) fn fail_unreplicated(
        &mut self,
        asked: Replicas,
        fault: &Fault,
        fx: &mut Effects<W, R>,
    ) -> bool {
        let acknowledged = fault.found_of_replicas().map_or(0, |found| found.acknowledged);
        let before = self.line.len();
        let verdict = Verdict::Unavailable(fault.clone());
        let is_over = |ask: &Ask| {
            let wanted = ask.terms.replicas;
            wanted.is_some_and(|it| it.count > acknowledged && it.timeout <= asked.timeout)
        };
        self.fail_if(is_over, &verdict, fx);
        self.line.len() < before
    }

    /// Ends every try.
    pub(super) fn fail_all(&mut self, verdict: &Verdict, fx: &mut Effects<W, R>) {
        while let Some(id) = self.line.head() {
            self.fail(id, verdict.clone(), fx);
        }
    }

    pub(super) fn fail(&mut self, id: SeatId, verdict: Verdict, fx: &mut Effects<W, R>) {
        self.line.leave(id);
        if let Some(seat) = self.line.get_mut(id)
            && let SeatState::Waiting(waker) =
                std::mem::replace(&mut seat.state, SeatState::Over(verdict))
        {
            fx.wake_more.push(Waking::Wake(waker));
        }
    }

    /// Refuses all who come and all who wait.
    pub(crate) fn close(&mut self, fx: &mut Effects<W, R>) {
        self.client = Client::Closed;
        self.fail_all(&Verdict::Closed, fx);
        self.give_back_idle(fx);
    }

    /// Gives back what lingers, from now on at once: nobody is left who would come for it.
    pub(crate) fn forsake(&mut self, fx: &mut Effects<W, R>) {
        if self.client == Client::Open {
            self.client = Client::Gone;
            self.give_back_idle(fx);
        }
    }

    fn give_back_idle(&mut self, fx: &mut Effects<W, R>) {
        if let Some(beside) = self.beside_mut() {
            beside.look_at_idle();
        }
        fx.poke = true;
    }
}
