//! Granting, handing on, releasing, losing.

use super::*;
use crate::backend::{Grant, Renewal};

/// Ask for more tokens when fewer are left than would serve each waiter so often: as many as are
/// used up while the store answers.
const TOKENS_PER_WAITER: u64 = 16;

/// No more than this many are asked for ahead.
const TOKENS_LOW_MAX: u64 = 4_096;

/// What to do with a granted claim that nobody in this process uses.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// Grant it to the head of the line.
    Pass,
    /// The head of the line needs a token first.
    Refill,
    /// Keep it for a while.
    LingerUntil(Instant),
    /// Give it back.
    Withdraw,
}

impl<R> Held<R> {
    pub(super) fn hold(&mut self, token: u64, ask: &Ask, now: Instant) {
        self.holder = Some(Holder { token, until: ask.hold_limit.map(|limit| now + limit) });
        self.linger = ask.linger;
        self.linger_until = None;
    }

    /// Pokes the driver for a renewal before the tokens run out. `line` waiters need one each,
    /// fewer if other claims cut the row of hand-offs short.
    pub(super) fn ask_for_tokens<W>(&mut self, line: u64, fx: &mut Effects<W, R>) {
        let low = if self.linger.is_zero() {
            line.saturating_mul(TOKENS_PER_WAITER).min(TOKENS_LOW_MAX)
        } else {
            TOKENS_LOW_MAX
        };
        if self.fences.left() < low && !self.renew_now && self.renew_not_before.is_none() {
            self.renew_now = true;
            fx.poke = true;
        }
    }

    /// How many waiters the fairness bounds of `ask` leave tokens worth asking for.
    pub(super) fn row(&self, ask: &Ask) -> u64 {
        match self.wanted {
            None => u64::MAX,
            Some((_, used)) => {
                u64::from(ask.handoffs_max.saturating_sub(used)).div_ceil(TOKENS_PER_WAITER)
            }
        }
    }

    /// Whether the fairness bounds of the next in line allow one more hand-off here.
    fn may_hand_off(&self, ask: &Ask, now: Instant) -> bool {
        match self.wanted {
            None => true,
            Some((since, used)) => {
                used < ask.handoffs_max && now.saturating_duration_since(since) < ask.slice
            }
        }
    }
}

impl<W, R> Cohort<W, R> {
    /// What to do with the claim now that nobody holds it here.
    pub(super) fn idle(&self, now: Instant) -> Idle {
        let Place::Held(held) = &self.place else { return Idle::Withdraw };
        if held.over || !held.clock.is_valid(now) {
            return Idle::Withdraw;
        }
        match self.line.head().and_then(|id| self.line.get(id)) {
            Some(head) if !held.may_hand_off(&head.ask, now) => Idle::Withdraw,
            Some(_) if held.fences.left() == 0 => Idle::Refill,
            Some(_) => Idle::Pass,
            None if held.wanted.is_some() || self.closed => Idle::Withdraw,
            None => match held.linger_until {
                Some(until) if now < until => Idle::LingerUntil(until),
                _ => Idle::Withdraw,
            },
        }
    }

    /// Grants the idle claim to the head of the line. Only after [`Idle::Pass`], or for a claim
    /// that was granted this moment.
    pub(super) fn grant_head(&mut self, now: Instant, fx: &mut Effects<W, R>) -> bool {
        let Place::Held(held) = &mut self.place else { return false };
        let Some(id) = self.line.head() else { return false };
        let Some(token) = held.fences.take() else { return false };
        if let Some(reply) = held.reply.take() {
            // Released to nobody at first, and wanted here again before it was withdrawn.
            fx.reply = Some((reply, ReleaseAnswer::Released));
        }
        self.line.leave(id);
        if let Some(seat) = self.line.get_mut(id) {
            held.hold(token, &seat.ask, now);
            let over = SeatState::Over(Verdict::Granted(token));
            if let SeatState::Waiting(waker) = std::mem::replace(&mut seat.state, over) {
                fx.wake = Some(waker);
            }
            fx.poke |= seat.ask.hold_limit.is_some();
            let row = held.row(&seat.ask);
            held.ask_for_tokens(row.min(self.line.len() as u64), fx);
        }
        self.counters.acquired += 1;
        true
    }

    /// Hands the idle claim on inside this process if the rules allow.
    pub(super) fn pass(&mut self, now: Instant, fx: &mut Effects<W, R>) -> bool {
        if self.idle(now) != Idle::Pass || !self.grant_head(now, fx) {
            return false;
        }
        self.counters.handoffs_local += 1;
        if let Place::Held(held) = &mut self.place
            && let Some((_, used)) = &mut held.wanted
        {
            *used += 1;
        }
        true
    }

    /// A guard gives the lock up. The answer comes in the effects, or from the driver once the
    /// store has answered.
    pub(crate) fn release(
        &mut self,
        token: u64,
        reply: Option<R>,
        now: Instant,
        fx: &mut Effects<W, R>,
    ) {
        if !self.watchers.is_empty() {
            self.watchers.retain(|_, (of, _)| *of != token);
        }
        let good = self.held_until(token, now).is_some();
        if !good && self.holder() == Some(token) {
            // The lease is over, and the driver has not come round to say so.
            self.expire_hold(now, fx);
        }
        let Place::Held(held) = &mut self.place else {
            return self.forget_lost(token, reply, fx);
        };
        if !good || held.holder.as_ref().is_none_or(|holder| holder.token != token) {
            return self.forget_lost(token, reply, fx);
        }
        self.answered_at = Some(now);
        held.holder = None;
        held.linger_until = (!held.linger.is_zero()).then(|| now + held.linger);
        if self.pass(now, fx) {
            // The claim had a holder, so no earlier release waits for its withdrawal.
            fx.reply = reply.map(|reply| (reply, ReleaseAnswer::Released));
            return;
        }
        fx.poke = true;
        match self.idle(now) {
            Idle::Withdraw => {
                if let Place::Held(held) = &mut self.place {
                    held.reply = reply;
                }
            }
            _ => fx.reply = reply.map(|reply| (reply, ReleaseAnswer::Released)),
        }
    }

    fn forget_lost(&mut self, token: u64, reply: Option<R>, fx: &mut Effects<W, R>) {
        self.lost.retain(|(of, _)| *of != token);
        fx.reply = reply.map(|reply| (reply, ReleaseAnswer::NotHeld));
    }

    /// The claim was granted; it was asked for at `sent`.
    pub(super) fn granted(
        &mut self,
        lease: Duration,
        sent: Instant,
        grant: Grant,
        now: Instant,
        fx: &mut Effects<W, R>,
    ) {
        let clock = LeaseClock::start(sent, grant.valid_for);
        self.counters.handoffs_remote += u64::from(grant.handed_on);
        self.place = Place::Held(Held {
            lease,
            clock,
            fences: grant.fences,
            renew_now: false,
            renew_not_before: None,
            wanted: grant.wanted.then_some((now, 0)),
            holder: None,
            linger_until: None,
            linger: Duration::ZERO,
            reply: None,
            over: !clock.is_valid(now),
        });
        if clock.is_valid(now) && self.grant_head(now, fx) {
            let busy = Verdict::TimedOut(self.blocked_by());
            self.fail_impatient(&busy, fx);
        }
    }

    /// A renewal that was sent at `sent` was answered, or not.
    pub(crate) fn renewed(
        &mut self,
        sent: Instant,
        answer: Result<Renewal, Fault>,
        now: Instant,
        fx: &mut Effects<W, R>,
    ) {
        let Place::Held(held) = &mut self.place else { return };
        held.renew_now = false;
        match answer {
            Ok(Renewal::Held(grant)) => {
                self.trouble = None;
                self.answered_at = Some(now);
                self.counters.renewals += 1;
                held.renew_not_before = None;
                if held.over || !held.clock.is_valid(now) {
                    // A late answer does not revive a hold that was told lost.
                    return self.expire_hold(now, fx);
                }
                held.clock.renewed(sent, grant.valid_for);
                if grant.fences.left() > 0 {
                    held.fences = grant.fences;
                } else if held.fences.left() == 0 {
                    // Whoever is next needs one, and asking at once would be answered the same.
                    held.clock.renewal_failed(now);
                    held.renew_not_before = Some(held.clock.renew_at());
                }
                match (grant.wanted, held.wanted) {
                    (true, None) => held.wanted = Some((now, 0)),
                    (false, _) => held.wanted = None,
                    (true, Some(_)) => {}
                }
                if held.holder.is_none() {
                    self.pass(now, fx);
                }
            }
            Ok(Renewal::Lost) => {
                self.lose(LostCause::Taken, fx);
                if let Place::Held(held) = &mut self.place {
                    held.over = true;
                }
            }
            Err(fault) => {
                held.clock.renewal_failed(now);
                held.renew_not_before = Some(held.clock.renew_at());
                self.trouble = Some(fault);
            }
        }
    }

    /// Tells the holder that its hold is over, and why.
    pub(super) fn lose(&mut self, cause: LostCause, fx: &mut Effects<W, R>) {
        let Place::Held(held) = &mut self.place else { return };
        let Some(holder) = held.holder.take() else { return };
        self.counters.lost += 1;
        self.lost.push((holder.token, cause));
        let watchers = std::mem::take(&mut self.watchers);
        let (ours, others) = watchers.into_iter().partition(|(_, (of, _))| *of == holder.token);
        self.watchers = others;
        let ours: BTreeMap<u64, (u64, W)> = ours;
        fx.wake_more.extend(ours.into_values().map(|(_, waker)| waker));
    }

    /// Ends holds whose lease or hold limit is over. A hold limit hands the lock on.
    pub(super) fn expire_hold(&mut self, now: Instant, fx: &mut Effects<W, R>) {
        let Place::Held(held) = &mut self.place else { return };
        if !held.clock.is_valid(now) {
            held.over = true;
            self.lose(LostCause::Expired, fx);
        } else if let Some(Holder { until: Some(until), .. }) = held.holder
            && now >= until
        {
            self.lose(LostCause::HoldLimit, fx);
            self.pass(now, fx);
            fx.poke = true;
        }
    }

    /// Why the hold under `token` is over; `None` while it is good or after its release.
    pub(crate) fn lost(
        &mut self,
        token: u64,
        now: Instant,
        fx: &mut Effects<W, R>,
    ) -> Option<LostCause> {
        if self.holder() == Some(token) && self.held_until(token, now).is_none() {
            self.expire_hold(now, fx);
            fx.poke = true;
        }
        self.lost.iter().find(|(of, _)| *of == token).map(|(_, cause)| *cause)
    }

    /// Wakes `waker` when the hold under `token` is lost. `watcher` is the number that an earlier
    /// call gave; the caller hands it back with [`unwatch`](Self::unwatch).
    pub(crate) fn watch(&mut self, token: u64, watcher: Option<u64>, waker: W) -> Option<u64> {
        if self.holder() != Some(token) {
            return watcher;
        }
        let number = watcher.unwrap_or_else(|| {
            self.watchers_made += 1;
            self.watchers_made
        });
        self.watchers.insert(number, (token, waker));
        Some(number)
    }

    /// Forgets a watcher.
    pub(crate) fn unwatch(&mut self, watcher: u64) {
        self.watchers.remove(&watcher);
    }

    /// Ends the hold for good at the deadline of a shutdown.
    pub(crate) fn abandon(&mut self, fx: &mut Effects<W, R>) -> bool {
        let before = self.counters.lost;
        self.lose(LostCause::Shutdown, fx);
        fx.poke = true;
        self.counters.lost > before
    }
}
