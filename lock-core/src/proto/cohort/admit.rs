//! Refusing those whose turn would come too late: at arrival, in the line, and at the grant.

use super::*;

impl<W, R> Cohort<W, R> {
    /// The line before its `nth` waiter, 0 for its head.
    fn before(&self, nth: usize, now: Instant) -> Ahead {
        let claims = if self.asking() > 0 { self.ahead().unwrap_or(0) } else { 0 };
        let counted =
            self.answered_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        Ahead { here: nth + 1, claims, counted }
    }

    /// The estimator, unless the store is away: how long it will be cannot be told from holds.
    fn known(&self) -> Option<&Admission> {
        let is_away = self.trouble().is_some() && self.holder().is_none();
        self.admission.as_deref().filter(|_| !is_away)
    }

    /// How long one who arrives now is likely to wait, if that is known.
    pub(crate) fn estimate(&self, now: Instant) -> Option<Duration> {
        self.known()?.estimate(self.before(self.line.len(), now), now)
    }

    /// Why one who arrives now need not wait. The head of the line is always let in: what is known
    /// of a key is learnt from those who are.
    pub(super) fn overload(&self, ask: &Ask, now: Instant) -> Option<Overload> {
        let admission = self.known()?;
        let waiters = self.line.len();
        if !ask.admission || waiters == 0 {
            return None;
        }
        let left = ask.deadline.saturating_duration_since(now);
        let estimate = admission.refuses(self.before(waiters, now), left, ask.budget, now)?;
        Some(Overload { waiters, estimate, left })
    }

    /// The head of the line, after those whose time is too short for a hold have made way for the
    /// ones behind them. The last one keeps the turn: nobody here could use it instead.
    pub(super) fn head_in_time(&mut self, now: Instant, fx: &mut Effects<W, R>) -> Option<SeatId> {
        loop {
            let id = self.line.head()?;
            let ask = &self.line.get(id)?.ask;
            let Some(admission) = self.admission.as_ref().filter(|_| ask.admission) else {
                return Some(id);
            };
            let left = ask.deadline.saturating_duration_since(now);
            if self.line.len() == 1 || left >= admission.needed(ask.budget) {
                return Some(id);
            }
            self.count().timeouts += 1;
            let verdict = Verdict::TimedOut(self.blocked_by());
            self.fail(id, verdict, fx);
        }
    }

    /// Tells those at the back of the line who cannot be served in time any more.
    pub(super) fn refuse_those_in_vain(&mut self, now: Instant, fx: &mut Effects<W, R>) {
        while let Some(admission) = self.known().filter(|known| known.is_time_to_look())
            && let Some(id) = self.line.tail()
            && let Some(seat) = self.line.get(id)
        {
            let (ahead, ask) = (self.line.len() - 1, seat.ask);
            let left = ask.deadline.saturating_duration_since(now);
            if !ask.admission || ahead == 0 || !admission.is_in_vain(ahead, left) {
                return;
            }
            let Some(estimate) = admission.estimate(self.before(ahead, now), now) else { return };
            self.count().refused += 1;
            self.fail(id, Verdict::Refused(Overload { waiters: ahead, estimate, left }), fx);
        }
    }

    /// Holds and waits of late, for those who watch.
    pub(crate) fn of_late(&self) -> (Option<Quantiles>, Option<Quantiles>) {
        let admission = self.admission.as_ref();
        (admission.and_then(|known| known.holds()), admission.and_then(|known| known.waits()))
    }
}
