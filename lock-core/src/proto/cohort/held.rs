//! Granting, handing on, releasing, losing.

use super::*;
use crate::backend::{Grant, NotReplicated, Renewal};
use crate::ground::Plus as _;

/// More tokens are asked for when fewer are left than would serve each waiter so often. So many are
/// used up while the store answers.
const TOKENS_PER_WAITER: u64 = 16;

/// A waiter that waits for the sake of other processes has the store asked so often: they may have
/// given up, and it tells nobody of that. Those who stand in its line ask it as often.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(500);

/// No more than this many are asked for ahead.
const TOKENS_LOW_MAX: u64 = 2_048;

/// The end of a granted claim that nobody in this process uses.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// Grant it to the head of the line.
    Pass,
    /// The head of the line needs a token first, or more of the lease, or the server's word that
    /// the claim is good.
    Refill,
    /// Keep it for a while.
    LingerUntil(Instant),
    /// Nobody gets it before.
    RestUntil(Instant),
    /// Leave it to its lease: it rests, and nobody is left to give it back then.
    Forget,
    /// Give it back.
    Withdraw,
}

impl<R> Held<R> {
    /// Gives the claim to one more, for whom it [has room](Self::has_room). A further reader is
    /// the caller's to keep.
    pub(super) fn hold(&mut self, token: u64, ask: &Ask, now: Instant) -> Option<Holder> {
        let lingers = !ask.linger.is_zero() && !self.contested;
        let linger = || Linger { time: ask.linger, until: None };
        match &mut self.linger {
            Some(earlier) if lingers => **earlier = linger(),
            earlier => *earlier = lingers.then(|| Box::new(linger())),
        }
        self.rests_until = (!ask.min_hold.is_zero()).then(|| Box::new(now.plus(ask.min_hold)));
        if self.outlasts_its_lease() {
            self.is_asked_for();
        }
        let until = ask.hold_limit.map(|limit| now.plus(limit));
        let holder = Holder { token, since: now, until, guards: 1, name: ask.name };
        if self.holder.is_some() {
            return Some(holder);
        }
        self.holder = Some(holder);
        None
    }

    /// Until when the hold of one who has it is good, if it is.
    #[inline]
    pub(super) fn good_until(&self, holder: &Holder, now: Instant) -> Option<Instant> {
        let end = self.clock.valid_until();
        let end = holder.until.map_or(end, |at| at.min(end));
        (!self.is_over() && now < end).then_some(end)
    }

    /// Whether one more may hold it: any number of readers, one writer.
    pub(super) fn has_room(&self) -> bool {
        self.mode == Mode::Shared || self.holder.is_none()
    }

    /// How many in line it can be handed on to: none if the first of them wants another claim.
    pub(super) fn wanting<W>(&self, line: &Line<Seat<W>>) -> usize {
        let head = line.first();
        if head.is_some_and(|head| self.suits(&head.ask)) { line.len() } else { 0 }
    }

    /// Pokes the driver for a renewal before the tokens run out. The waiters in `line` need one
    /// each, fewer if the fairness bounds of `ask` cut the row of hand-offs short.
    pub(super) fn ask_for_tokens<W>(&mut self, line: usize, ask: &Ask, fx: &mut Effects<W, R>) {
        // This runs at every arrival, and most find enough.
        let (left, at_least) = (self.tokens.left(), (1_u64 << self.tokens_low) - 1);
        if left >= TOKENS_LOW_MAX.max(at_least) || !self.may_ask_for_tokens() {
            return;
        }
        let low = if self.linger.is_none() {
            let row = match self.mode {
                // They enter together, and another one may come at any time.
                Mode::Shared => (line as u64).max(TOKENS_PER_WAITER),
                _ => (line as u64).saturating_mul(TOKENS_PER_WAITER),
            };
            let bound = self
                .wanted
                .map_or(u64::MAX, |_| u64::from(ask.handoffs_max.saturating_sub(self.handed_off)));
            row.min(bound).min(TOKENS_LOW_MAX).max(at_least)
        } else {
            TOKENS_LOW_MAX
        };
        if left < low {
            self.refresh = Refresh::Due;
            fx.poke = true;
        }
    }

    /// A downgrade that was not answered is asked for again.
    fn try_again(&mut self) {
        if self.downgrade == Downgrade::Asked {
            self.downgrade = Downgrade::Due;
        }
    }

    /// A renewal is to be made soon, for tokens or to learn who waits.
    pub(super) fn is_asked_for(&mut self) {
        if self.refresh == Refresh::Idle {
            self.refresh = Refresh::Due;
        }
    }

    /// The renewal comes before anything else: what failed before says nothing of it.
    fn is_asked_for_anew(&mut self) {
        self.refresh = match self.refresh {
            Refresh::UnderWay { .. } => Refresh::UnderWay { behind_failure: false },
            _ => Refresh::Due,
        };
    }

    pub(super) fn is_renewing(&self) -> bool {
        matches!(self.refresh, Refresh::UnderWay { .. })
    }

    /// The last renewal that was answered, or was not, has failed.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.refresh, Refresh::Failed | Refresh::UnderWay { behind_failure: true })
    }

    /// Nobody holds it, and nobody is given it. Also a moment longer, until the driver has looked.
    pub(super) fn is_resting(&self) -> bool {
        self.holder.is_none() && self.rests_until.is_some()
    }

    /// Somebody holds it, or it rests.
    pub(super) fn is_taken(&self) -> bool {
        self.holder.is_some() || self.is_resting()
    }

    fn is_renewed_soon(&self) -> bool {
        matches!(self.refresh, Refresh::Due | Refresh::UnderWay { .. })
    }

    /// Until when nobody is given the claim, if nobody holds it and that is to come.
    pub(super) fn rests(&self, now: Instant) -> Option<Instant> {
        let until = self.rests_until.as_deref().filter(|_| self.holder.is_none());
        until.copied().filter(|until| now < *until)
    }

    /// Whether a hold is to be followed by a rest that is longer than the lease has left: then the
    /// key would be free too early, should this process end.
    pub(super) fn outlasts_its_lease(&self) -> bool {
        self.rests_until.as_deref().is_some_and(|until| *until > self.clock.valid_until())
    }

    pub(super) fn is_over(&self) -> bool {
        self.standing == Standing::Over
    }

    /// The store may have granted the key to another: another server has taken the place of the one
    /// that granted the claim, or it was not renewed while it rested. It is asked at once.
    pub(super) fn must_be_confirmed(&mut self) {
        if !self.is_over() {
            self.standing = Standing::Unconfirmed;
        }
        self.is_asked_for_anew();
    }

    /// Whether a renewal for tokens would bring some, is not under way, and has not just failed.
    fn may_ask_for_tokens(&self) -> bool {
        !self.spent && self.refresh == Refresh::Idle
    }

    /// Whether nobody can be granted this claim any more: no token is left, and none will come.
    pub(super) fn is_used_up(&self) -> bool {
        self.spent && self.tokens.left() == 0
    }

    pub(super) fn replicas(&self) -> Option<Replicas> {
        self.replicas.as_deref().copied()
    }

    /// Whether the claim has what a waiter asks for: its mode, a lease as long, and a grant that as
    /// many replicas acknowledged. All are fixed when it is opened, but for the mode of one that is
    /// to be shared: until the store has said so, it may be either.
    pub(super) fn suits(&self, ask: &Ask) -> bool {
        self.downgrade == Downgrade::No && ask.is_met_by(self.mode, self.lease, self.replicas())
    }

    /// Whether a reader that does not wait is let in as well, at the latest after a renewal.
    pub(super) fn lets_in(&self, ask: &Ask) -> bool {
        let is_well = self.standing == Standing::Good && !self.revoke_requested;
        is_well && self.wanted.is_none() && !self.is_used_up() && self.suits(ask)
    }

    /// Whether a claim that suits a waiter is to be renewed before it is handed on to that.
    ///
    /// So little of the lease is left only if renewals have failed, or this process was stopped:
    /// who was given the rest would lose what it asked for.
    pub(super) fn is_stale_for(&self, ask: &Ask, now: Instant) -> bool {
        self.tokens.left() == 0
            || self.standing == Standing::Unconfirmed
            || !self.clock.has_half_of(ask.terms.lease, now)
    }

    /// Whether the fairness bounds of the next in line allow one more hand-off here.
    pub(super) fn may_hand_off(&self, ask: &Ask, now: Instant) -> bool {
        match self.wanted {
            None => true,
            Some(since) => {
                self.handed_off < ask.handoffs_max
                    && now.saturating_duration_since(since) < ask.slice
            }
        }
    }
}

impl<W, R> Cohort<W, R> {
    /// Whether the claim is granted, and one more may hold it.
    pub(super) fn has_room(&self, lane: usize) -> bool {
        self.held_in(lane).is_some_and(Held::has_room)
    }

    /// Notes that a claim has rested, if that is so.
    pub(super) fn end_rest(&mut self, lane: usize, now: Instant) {
        if let Some(held) = self.held_in_mut(lane)
            && held.is_resting()
            && held.rests(now).is_none()
        {
            held.rests_until = None;
            if held.clock.renew_at() <= now || held.has_failed() {
                // It was not renewed while it rested: the store may have given it to another.
                held.must_be_confirmed();
            }
            self.note(lane);
        }
    }

    /// The step for a claim that has room. One that somebody holds is not given back before
    /// they are gone.
    pub(super) fn idle(&self, lane: usize, now: Instant) -> Idle {
        let Some(held) = self.held_in(lane) else { return Idle::Withdraw };
        if held.is_over() || !held.clock.is_valid(now) || held.revoke_requested {
            return Idle::Withdraw;
        }
        if let Some(until) = held.rests(now) {
            let is_awaited = self.client == Client::Open || !self.line.is_empty();
            let is_longer_soon = held.outlasts_its_lease() && held.is_renewed_soon();
            let stays = is_awaited || is_longer_soon;
            return if stays { Idle::RestUntil(until) } else { Idle::Forget };
        }
        if held.is_used_up() {
            return Idle::Withdraw;
        }
        match self.line.first() {
            Some(head) if !held.suits(&head.ask) => Idle::Withdraw,
            Some(head) if !held.may_hand_off(&head.ask, now) => Idle::Withdraw,
            Some(head) if held.is_stale_for(&head.ask, now) => Idle::Refill,
            Some(_) => Idle::Pass,
            None if held.wanted.is_some() || self.client != Client::Open => Idle::Withdraw,
            None => match held.linger.as_ref().and_then(|linger| linger.until) {
                Some(until) if now < until => Idle::LingerUntil(until),
                _ => Idle::Withdraw,
            },
        }
    }

    /// When to ask the store whether others still want a claim that somebody holds, if nothing but
    /// their wish keeps the head of the line out. Only after [`Idle::Withdraw`].
    pub(super) fn ask_again_at(&self, lane: usize) -> Option<Instant> {
        let (head, held) = (self.line.first()?, self.held_in(lane)?);
        let is_over = held.is_over() || held.revoke_requested || held.is_used_up();
        let is_held_back = held.suits(&head.ask) && !is_over && !held.has_failed();
        is_held_back.then(|| held.clock.renew_soon_at(ASK_AGAIN))
    }

    /// Grants the idle claim to the head of the line. Only after [`Idle::Pass`], or for a claim
    /// that was granted or refilled this moment: then its lease is what the store has to give.
    pub(super) fn grant_head(&mut self, lane: usize, now: Instant, fx: &mut Effects<W, R>) -> bool {
        let first = self.line.head();
        let Some(id) = self.head_in_time(now, fx) else { return false };
        // Some of the others have a claim that asks for them.
        let asking = self.asking();
        let Some(held) = held_at(&mut self.place, &mut self.more, lane) else { return false };
        let Some(Seat { ask, .. }) = self.line.get(id) else { return false };
        let has_moved = first != Some(id);
        if !held.suits(ask) || (has_moved && held.is_stale_for(ask, now)) {
            // The one who opened the claim has left, or the one that it was to be handed on to has
            // made way. The driver gives it back and opens it anew, or renews it.
            fx.poke = true;
            return false;
        }
        let Some(token) = held.tokens.take() else { return false };
        if let Some(reply) = held.reply.take() {
            // Released to nobody at first, and wanted here again before it was withdrawn.
            fx.reply = Some((reply, ReleaseAnswer::Released));
        }
        self.line.leave(id);
        let (line, mut further) = (self.line.len(), None);
        let wanting = if line == 0 { 0 } else { held.wanting(&self.line) };
        if let Some(seat) = self.line.get_mut(id) {
            further = held.hold(token, &seat.ask, now);
            let over = SeatState::Over(Verdict::Granted(token));
            if let SeatState::Waiting(waker) = std::mem::replace(&mut seat.state, over) {
                let earlier = fx.wake.replace((id, waker));
                fx.wake_more.extend(earlier.map(|(_, earlier)| Waking::Wake(earlier)));
            }
            fx.poke |= seat.ask.hold_limit.is_some() || held.refresh == Refresh::Due;
            held.ask_for_tokens(wanting.saturating_sub(asking), &seat.ask, fx);
            match &mut self.admission {
                Some(known) => known.granted(now.saturating_duration_since(seat.entered), now),
                None if line > 0 => self.admission = Some(Box::new(Admission::new(now))),
                None => {}
            }
        }
        match further {
            Some(reader) => self.more().readers.push(reader),
            None => self.note(lane),
        }
        // Another claim may have asked for it.
        fx.poke |= asking > 0;
        fx.changes.granted += 1;
        self.refuse_those_in_vain(now, fx);
        true
    }

    /// Hands the claim on inside this process if the rules allow: to one writer, or to all readers
    /// at the head of the line. Whether it was.
    pub(super) fn pass(&mut self, lane: usize, now: Instant, fx: &mut Effects<W, R>) -> bool {
        let mut some = false;
        while self.has_room(lane)
            && self.idle(lane, now) == Idle::Pass
            && self.hand_on(lane, now, fx)
        {
            some = true;
        }
        some
    }

    /// The same right after a refill. With a store that takes half of the lease for its answer
    /// there is never more of it, and who waits is given that.
    fn pass_refilled(&mut self, lane: usize, now: Instant, fx: &mut Effects<W, R>) -> bool {
        let may = matches!(self.idle(lane, now), Idle::Pass | Idle::Refill);
        let first = may && self.hand_on(lane, now, fx);
        self.pass(lane, now, fx) || first
    }

    fn hand_on(&mut self, lane: usize, now: Instant, fx: &mut Effects<W, R>) -> bool {
        if !self.grant_head(lane, now, fx) {
            return false;
        }
        self.count().handoffs_local += 1;
        fx.changes.handed_on_here += 1;
        if let Some(held) = self.held_in_mut(lane)
            && held.wanted.is_some()
        {
            held.handed_off += 1;
        }
        true
    }

    /// One guard more for the hold under `token`, if that is still good for one who asks for this
    /// mode.
    pub(crate) fn reenter(&mut self, token: u64, asked: Mode, now: Instant) -> bool {
        let good = self.held_until(token, now).is_some()
            && self.mode_of(token).is_some_and(|mode| mode.covers(asked));
        if good && let Some(holder) = self.spot_of(token).and_then(|spot| self.holder_at(spot)) {
            holder.guards += 1;
        }
        good
    }

    /// The replicas that the hold under `token` lacks for one who re-enters it. It never
    /// gets them: they acknowledge a grant, and a re-entry is none. A hold that was made without
    /// them gave none any time.
    pub(crate) fn lacks(&self, token: u64, wanted: Replicas) -> Option<NotReplicated> {
        let (held, _) = self.hold_of(token)?;
        if wanted.is_met_by(held.replicas()) {
            return None;
        }
        let (acknowledged, timeout) =
            held.replicas().map_or((0, Duration::ZERO), |had| (had.count, had.timeout));
        Some(NotReplicated { wanted: wanted.count, acknowledged, timeout })
    }

    /// A guard goes whose hold is over already.
    fn forget_lost(&mut self, token: u64) {
        let Some(more) = &mut self.more else { return };
        let Some(lost) = more.lost.get_mut(&token) else { return };
        lost.guards -= 1;
        if lost.guards == 0 {
            more.lost.remove(&token);
        }
    }

    /// A guard gives the lock up; of several guards of one hold, the last one does. Where the store
    /// has to be asked first, this returns `None`. The answer then comes from the driver, through
    /// what `reply` made.
    pub(crate) fn release(
        &mut self,
        token: u64,
        reply: impl FnOnce() -> Option<R>,
        now: Instant,
        fx: &mut Effects<W, R>,
    ) -> Option<ReleaseAnswer> {
        let spot = self.spot_of(token);
        let is_good = |(held, holder): (&Held<R>, &Holder)| held.good_until(holder, now).is_some();
        let good = spot.filter(|spot| self.hold_at(*spot).is_some_and(is_good));
        let Some(good) = good else {
            if let Some(spot) = spot {
                // The lease is over, and the driver has not come round to say so.
                self.expire_holds(spot.lane(), now, fx);
                fx.poke = true;
            }
            self.forget_lost(token);
            return Some(ReleaseAnswer::NotHeld);
        };
        if let Some(holder) = self.holder_at(good).filter(|holder| holder.guards > 1) {
            holder.guards -= 1;
            fx.changes.goes_on = true;
            return Some(ReleaseAnswer::Released);
        }
        let lane = good.lane();
        let ended = self.take_holder(good).map(|holder| holder.ended(now, None));
        self.end_rest(lane, now);
        if self.held_in(lane).is_some_and(|held| held.holder.is_some()) {
            // Other readers hold it still, and who waits for it waits for them.
            fx.changes.end(ended);
            self.forget_watchers(&[token], fx);
            return Some(ReleaseAnswer::Released);
        }
        self.answered_at = Some(now);
        if let (Some(admission), Some(Ended { held_for, .. })) = (&mut self.admission, ended) {
            admission.released(held_for);
        }
        fx.changes.end(ended);
        if let Some(Held { linger: Some(linger), .. }) = self.held_in_mut(lane) {
            linger.until = Some(now.plus(linger.time));
        }
        self.forget_watchers(&[token], fx);
        if self.pass(lane, now, fx) {
            // The claim had a holder, so no earlier release waits for its withdrawal.
            return Some(ReleaseAnswer::Released);
        }
        let is_idle = self.line.is_empty() && self.holder().is_none();
        if let Some(admission) = self.admission.as_mut().filter(|_| is_idle) {
            admission.idle(now);
        }
        fx.poke = true;
        if self.idle(lane, now) != Idle::Withdraw {
            return Some(ReleaseAnswer::Released);
        }
        if let Some(held) = self.held_in_mut(lane) {
            held.reply = reply();
        }
        None
    }

    /// The writer that holds the lock under `token` wants to share it from now on. The driver is
    /// to be poked for it; whether that [is so](Self::mode_of), it learns by
    /// [`watch`](Self::watch).
    pub(crate) fn downgrade(&mut self, token: u64) -> Result<(), NotDowngraded> {
        let (mode, guards) = match self.hold_of(token) {
            Some((held, holder)) => (held.mode, holder.guards),
            None => return Err(NotDowngraded::Lost),
        };
        match mode {
            Mode::Shared => return Ok(()),
            Mode::Permit { .. } => return Err(NotDowngraded::Permit),
            Mode::Exclusive if guards > 1 => return Err(NotDowngraded::Reentered),
            Mode::Exclusive => {}
        }
        if let Phase::Held(held) = &mut self.place
            && held.downgrade == Downgrade::No
        {
            held.downgrade = Downgrade::Due;
            held.is_asked_for_anew();
        }
        Ok(())
    }

    /// The claim was granted; it was asked for at `sent`.
    pub(super) fn granted(
        &mut self,
        lane: usize,
        terms: &Terms,
        sent: Instant,
        grant: Grant,
        now: Instant,
        fx: &mut Effects<W, R>,
    ) {
        let clock = LeaseClock::start(sent, grant.valid_for);
        if grant.handed_on {
            self.count().handoffs_remote += 1;
            fx.changes.handed_on_there = true;
        }
        if terms.mode == Mode::Shared {
            let acquired = self.acquired();
            self.more().acquired_before = acquired;
        }
        let held = Held {
            lease: terms.lease,
            replicas: terms.replicas.map(Box::new),
            mode: terms.mode,
            slot: u16::try_from(grant.slot).unwrap_or(u16::MAX),
            downgrade: Downgrade::No,
            clock,
            tokens: grant.tokens,
            refresh: Refresh::Idle,
            refilling: false,
            standing: if clock.is_valid(now) { Standing::Good } else { Standing::Over },
            spent: false,
            tokens_low: tokens_low(terms.mode, &grant.tokens),
            revoke_requested: grant.revoke_requested,
            wanted: grant.wanted.then_some(now),
            handed_off: 0,
            holder: None,
            linger: None,
            rests_until: None,
            contested: grant.wanted,
            reply: None,
        };
        self.put(lane, Phase::Held(held));
        self.forget_rival();
        if clock.is_valid(now) && self.grant_head(lane, now, fx) {
            self.acquired_there += 1;
            self.pass(lane, now, fx);
            self.fail_tries_in_vain(terms.mode, None, fx);
        }
    }

    /// The claim is renewed from now on, until that was answered.
    pub(crate) fn renewing(&mut self, lane: usize, now: Instant) {
        if let Some(held) = self.held_in_mut(lane) {
            held.clock.renewal_begins(now);
            let behind_failure = held.has_failed();
            held.refresh = Refresh::UnderWay { behind_failure };
            if held.downgrade == Downgrade::Due && !behind_failure {
                held.downgrade = Downgrade::Asked;
            }
        }
        self.note(lane);
    }

    /// A renewal that was sent at `sent` was answered, or not.
    pub(crate) fn renewed(
        &mut self,
        lane: usize,
        sent: Instant,
        answer: Result<Renewal, Fault>,
        now: Instant,
        fx: &mut Effects<W, R>,
    ) {
        let moved = answer.as_ref().is_err_and(|fault| self.has_moved(fault));
        if matches!(answer, Ok(Renewal::Held(_))) {
            self.forget_trouble();
            self.answered_at = Some(now);
            self.renewals += 1;
        }
        if let Some(held) = self.held_in_mut(lane) {
            // A downgrade that was asked for meanwhile is not answered by this.
            let is_due = held.downgrade == Downgrade::Due;
            held.refresh = if is_due { Refresh::Due } else { Refresh::Idle };
        }
        self.note(lane);
        let Some(held) = held_at(&mut self.place, &mut self.more, lane) else { return };
        let refilled = std::mem::take(&mut held.refilling);
        let asked = held.downgrade == Downgrade::Asked;
        match answer {
            Ok(Renewal::Held(grant)) => {
                if asked {
                    (held.mode, held.downgrade) = (Mode::Shared, Downgrade::No);
                    if held.holder.is_some() {
                        // Readers let each other in.
                        held.rests_until = None;
                    }
                }
                if held.is_over() || !held.clock.is_valid(now) {
                    // A late answer does not revive a hold that was told lost.
                    return self.expire_holds(lane, now, fx);
                }
                held.standing = Standing::Good;
                held.clock.renewed(sent, grant.valid_for);
                held.spent = grant.tokens.left() == 0;
                if !held.spent {
                    held.tokens.extend(grant.tokens);
                    held.tokens_low = tokens_low(held.mode, &held.tokens);
                }
                match (grant.wanted, held.wanted) {
                    (true, None) => (held.wanted, held.handed_off) = (Some(now), 0),
                    (false, _) => held.wanted = None,
                    (true, Some(_)) => {}
                }
                held.contested |= grant.wanted;
                if held.contested {
                    held.linger = None;
                }
                self.learn_revoke(lane, grant.revoke_requested, fx);
                if asked {
                    self.tell_holders(lane, Event::Downgraded, fx);
                }
                if self.has_room(lane) {
                    // A renewal that was sent before may have been long on its way: it is asked
                    // once more.
                    if refilled {
                        self.pass_refilled(lane, now, fx)
                    } else {
                        self.pass(lane, now, fx)
                    };
                }
            }
            Ok(Renewal::Lost) => {
                self.lose(lane, LossReason::Taken, now, fx);
                if let Some(held) = self.held_in_mut(lane) {
                    held.standing = Standing::Over;
                }
            }
            Err(fault) if moved => {
                held.try_again();
                held.must_be_confirmed();
                self.more().trouble = Some(fault);
            }
            Err(fault) => {
                held.try_again();
                held.clock.renewal_failed(now);
                held.refresh = Refresh::Failed;
                self.more().trouble = Some(fault);
                self.tell_holders(lane, Event::RenewalFailing, fx);
            }
        }
    }
}

/// When to ask for more, see [`Held::tokens_low`].
fn tokens_low(mode: Mode, tokens: &TokenBlock) -> u8 {
    match mode {
        Mode::Shared => u8::try_from((tokens.left() / 4).max(1).ilog2()).unwrap_or(0),
        _ => 0,
    }
}

/// Why a hold is not going to be shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotDowngraded {
    /// It is over.
    Lost,
    /// It is a permit.
    Permit,
    /// Others that were called under it count on having the key alone.
    Reentered,
}

/// The granted claim of a lane, of a cohort whose other fields are in use.
fn held_at<'a, W, R>(
    first: &'a mut Phase<R>,
    more: &'a mut Option<Box<More<W, R>>>,
    lane: usize,
) -> Option<&'a mut Held<R>> {
    let place = match lane {
        0 => first,
        lane => more.as_mut()?.beside.as_mut()?.place_mut(lane)?,
    };
    match place {
        Phase::Held(held) => Some(held),
        _ => None,
    }
}
