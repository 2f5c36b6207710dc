//! News for a holder: that its hold is over, or that somebody asked for the key.
//!
//! Being asked to give way binds nobody: the guard stays good, and `run`, the layer and the macro
//! go on. What changes is the end of the hold. The claim goes back to the store, even with waiters
//! in line here or a `linger`, and those waiters join the store's line anew. Otherwise whoever
//! asked would stand behind the line of the process that it asked. The next claim starts unmarked.

use super::lanes::Spot;
use super::*;

/// A kind of news of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// It is over without a release.
    Lost,
    /// A renewal failed.
    RenewalFailing,
    /// Somebody asked for the key.
    RevokeRequested,
    /// It shares the key.
    Downgraded,
}

/// A watcher of a hold.
#[derive(Debug)]
pub(super) struct Watcher<W> {
    event: Event,
    pub(super) waker: W,
}

impl<W, R> Cohort<W, R> {
    /// Tells all who hold it by the claim of this lane that their hold is over, and why.
    pub(super) fn lose(
        &mut self,
        lane: usize,
        reason: LossReason,
        now: Instant,
        fx: &mut Effects<W, R>,
    ) {
        let mut lost = Vec::new();
        while let Some(token) = self.lose_one(Spot::Lane(lane), reason, now, fx) {
            lost.push(token);
        }
        self.tell(&lost, Event::Lost, fx);
        self.forget_watchers(&lost, fx);
    }

    /// The watchers are the caller's to tell.
    fn lose_one(
        &mut self,
        spot: Spot,
        reason: LossReason,
        now: Instant,
        fx: &mut Effects<W, R>,
    ) -> Option<u64> {
        let slot = self.held_in(spot.lane()).map_or(0, |held| u32::from(held.slot));
        let holder = self.take_holder(spot)?;
        fx.changes.end(Some(holder.ended(now, Some(reason))));
        self.count().lost += 1;
        let Holder { token, guards, .. } = holder;
        self.more().lost.insert(token, LostHold { slot, reason, guards });
        Some(token)
    }

    /// Ends the holds of a lane whose lease or hold limit is over. A hold limit hands the lock on.
    pub(super) fn expire_holds(&mut self, lane: usize, now: Instant, fx: &mut Effects<W, R>) {
        // This runs at every step, and most find nothing.
        let Some(held) = self.held_in_mut(lane) else { return };
        if held.clock.is_valid(now) {
            self.expire_limits(lane, now, fx);
        } else {
            held.standing = Standing::Over;
            self.lose(lane, LossReason::Expired, now, fx);
        }
    }

    fn expire_limits(&mut self, lane: usize, now: Instant, fx: &mut Effects<W, R>) {
        while let Some((_, token)) = self.limit_in(lane).filter(|(until, _)| now >= *until) {
            let Some(spot) = self.spot_of(token) else { return };
            self.lose_one(spot, LossReason::HoldLimit, now, fx);
            self.tell(&[token], Event::Lost, fx);
            self.forget_watchers(&[token], fx);
            self.pass(lane, now, fx);
            fx.poke = true;
        }
    }

    /// Why the hold under `token` is over; `None` while it is good or after its release.
    pub(crate) fn lost(
        &mut self,
        token: u64,
        now: Instant,
        fx: &mut Effects<W, R>,
    ) -> Option<LossReason> {
        if let Some(spot) = self.spot_of(token)
            && self.held_until(token, now).is_none()
        {
            self.expire_holds(spot.lane(), now, fx);
            fx.poke = true;
        }
        self.more.as_ref()?.lost.get(&token).map(|lost| lost.reason)
    }

    /// Why the last renewal of the hold under `token` failed, and how long it is good without one;
    /// `None` unless it failed and the hold is good.
    pub(crate) fn failing(&self, token: u64, now: Instant) -> Option<(Fault, Duration)> {
        let until = self.held_until(token, now)?;
        self.hold_of(token).filter(|(held, _)| held.has_failed())?;
        let fault = self.trouble()?.clone();
        Some((fault, until.saturating_duration_since(now)))
    }

    /// Tells those who hold the key by the claim of this lane.
    pub(super) fn tell_holders(&mut self, lane: usize, event: Event, fx: &mut Effects<W, R>) {
        if self.has_watchers() {
            let tokens: Vec<_> = self.holders_in(lane).map(|holder| holder.token).collect();
            self.tell(&tokens, event, fx);
        }
    }

    /// The store said whether somebody asked for the key. It stays with the claim: a holder that
    /// was told is not told otherwise.
    pub(super) fn learn_revoke(&mut self, lane: usize, requested: bool, fx: &mut Effects<W, R>) {
        let Some(held) = self.held_in_mut(lane) else { return };
        if !requested || std::mem::replace(&mut held.revoke_requested, true) {
            return;
        }
        self.tell_holders(lane, Event::RevokeRequested, fx);
    }

    /// Whether somebody asked the hold under `token` to give the key up; false once it is over.
    pub(crate) fn is_revoke_requested(&self, token: u64) -> bool {
        self.hold_of(token).is_some_and(|(held, _)| held.revoke_requested)
    }

    /// Wakes `waker` when there is this event of the hold under `token`. `watcher` is the number
    /// of this watcher once it has one; the caller hands it back with [`unwatch`](Self::unwatch).
    /// The waker that is of no use is the caller's to drop, after the mutex.
    #[must_use]
    pub(crate) fn watch(
        &mut self,
        token: u64,
        event: Event,
        watcher: &mut Option<u64>,
        waker: W,
    ) -> Option<W> {
        if self.spot_of(token).is_none() {
            return Some(waker);
        }
        let more = self.more();
        let number = *watcher.get_or_insert_with(|| {
            more.watchers_made += 1;
            more.watchers_made
        });
        let before = more.watchers.insert((token, number), Watcher { event, waker });
        before.map(|before| before.waker)
    }

    /// Forgets a watcher of the hold under `token`. Its waker is the caller's to drop, after the
    /// mutex.
    #[must_use]
    pub(crate) fn unwatch(&mut self, token: u64, watcher: u64) -> Option<W> {
        let gone = self.more.as_mut()?.watchers.remove(&(token, watcher));
        gone.map(|gone| gone.waker)
    }

    /// Wakes those who watch for this event of these holds.
    fn tell(&mut self, tokens: &[u64], event: Event, fx: &mut Effects<W, R>) {
        self.take_watchers(tokens, Some(event), |it| fx.wake_more.push(Waking::Wake(it.waker)));
    }

    /// Forgets the watchers of holds that are over.
    pub(super) fn forget_watchers(&mut self, tokens: &[u64], fx: &mut Effects<W, R>) {
        self.take_watchers(tokens, None, |it| fx.wake_more.push(Waking::End(it.waker)));
    }

    /// Takes those out who watch these holds, for one event or for all. However many others are
    /// watched, they are found at once.
    fn take_watchers(
        &mut self,
        tokens: &[u64],
        event: Option<Event>,
        mut with: impl FnMut(Watcher<W>),
    ) {
        let Some(more) = self.more.as_mut().filter(|more| !more.watchers.is_empty()) else {
            return;
        };
        let mut taken = Vec::new();
        for token in tokens {
            for (number, watcher) in more.watchers.range((*token, 0)..=(*token, u64::MAX)) {
                effort::spend();
                if event.is_none_or(|event| watcher.event == event) {
                    taken.push(*number);
                }
            }
            let found = taken.drain(..).filter_map(|number| more.watchers.remove(&number));
            found.for_each(&mut with);
        }
    }

    /// Ends all holds for good at the deadline of a shutdown, and says how many there were.
    pub(crate) fn abandon(&mut self, now: Instant, fx: &mut Effects<W, R>) -> usize {
        let abandoned = self.held_here();
        self.lose_all(LossReason::Shutdown, now, fx);
        fx.poke = true;
        abandoned
    }

    pub(super) fn lose_all(&mut self, reason: LossReason, now: Instant, fx: &mut Effects<W, R>) {
        for lane in 0..self.opened() {
            self.lose(lane, reason, now, fx);
        }
    }
}
