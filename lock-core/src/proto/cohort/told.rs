//! What a holder is told: that its hold is over, or that somebody asked for the key.

use super::*;

/// What a watcher wants to know of a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// It is over without a release.
    Lost,
    /// A renewal failed.
    RenewalFailing,
    /// Somebody asked for the key.
    RevokeRequested,
}

/// Who wants to know something of the hold under a token.
#[derive(Debug)]
pub(super) struct Watcher<W> {
    pub(super) token: u64,
    event: Event,
    waker: W,
}

impl<W> Watcher<W> {
    pub(super) fn waker(&self) -> &W {
        &self.waker
    }
}

impl<W, R> Cohort<W, R> {
    /// Tells all who hold it that their hold is over, and why.
    pub(super) fn lose(&mut self, reason: LossReason, now: Instant, fx: &mut Effects<W, R>) {
        while let Some(token) = self.holder() {
            self.lose_one(token, reason, now, fx);
        }
    }

    fn lose_one(&mut self, token: u64, reason: LossReason, now: Instant, fx: &mut Effects<W, R>) {
        let Some(holder) = self.take_holder(token) else { return };
        fx.changes.ended.push(holder.ended(now, Some(reason)));
        self.count().lost += 1;
        let guards = holder.guards;
        self.more().lost.push(LostHold { token, reason, guards });
        self.wake_watchers(token, Event::Lost, fx);
        self.forget_watchers(token);
    }

    /// Ends holds whose lease or hold limit is over. A hold limit hands the lock on.
    pub(super) fn expire_hold(&mut self, now: Instant, fx: &mut Effects<W, R>) {
        let Place::Held(held) = &mut self.place else { return };
        if !held.clock.is_valid(now) {
            held.over = true;
            self.lose(LossReason::Expired, now, fx);
            return;
        }
        while let Some(token) = self.over_its_limit(now) {
            self.lose_one(token, LossReason::HoldLimit, now, fx);
            self.pass(now, fx);
            fx.poke = true;
        }
    }

    /// A guard whose hold limit is over.
    fn over_its_limit(&self, now: Instant) -> Option<u64> {
        let mut holders = self.holders();
        let over = holders.find(|holder| holder.until.is_some_and(|until| now >= until));
        over.map(|holder| holder.token)
    }

    /// Why the hold under `token` is over; `None` while it is good or after its release.
    pub(crate) fn lost(
        &mut self,
        token: u64,
        now: Instant,
        fx: &mut Effects<W, R>,
    ) -> Option<LossReason> {
        if self.holder_of(token).is_some() && self.held_until(token, now).is_none() {
            self.expire_hold(now, fx);
            fx.poke = true;
        }
        self.more.as_ref()?.lost.iter().find(|lost| lost.token == token).map(|lost| lost.reason)
    }

    /// Why the last renewal of the hold under `token` failed, and how long it is good without one;
    /// `None` unless it failed and the hold is good.
    pub(crate) fn failing(&self, token: u64, now: Instant) -> Option<(Fault, Duration)> {
        let until = self.held_until(token, now)?;
        let Place::Held(Held { has_failed: true, .. }) = &self.place else { return None };
        let fault = self.trouble.as_deref()?.clone();
        Some((fault, until.saturating_duration_since(now)))
    }

    /// Those who hold it are told that a renewal failed.
    pub(super) fn tell_failing(&mut self, fx: &mut Effects<W, R>) {
        self.tell_holders(Event::RenewalFailing, fx);
    }

    fn tell_holders(&mut self, event: Event, fx: &mut Effects<W, R>) {
        if self.has_watchers() {
            let tokens: Vec<_> = self.holders().map(|holder| holder.token).collect();
            tokens.into_iter().for_each(|token| self.wake_watchers(token, event, fx));
        }
    }

    /// The store said whether somebody asked for the key. It stays with the claim: a holder that
    /// was told is not told otherwise.
    pub(super) fn learn_revoke(&mut self, requested: bool, fx: &mut Effects<W, R>) {
        let Place::Held(held) = &mut self.place else { return };
        if !requested || std::mem::replace(&mut held.revoke_requested, true) {
            return;
        }
        self.tell_holders(Event::RevokeRequested, fx);
    }

    /// Whether somebody asked the hold under `token` to give the key up; false once it is over.
    pub(crate) fn is_revoke_requested(&self, token: u64) -> bool {
        matches!(&self.place, Place::Held(held) if held.revoke_requested)
            && self.holder_of(token).is_some()
    }

    /// Wakes `waker` when there is this event of the hold under `token`. `watcher` is the number
    /// that an earlier call gave; the caller hands it back with [`unwatch`](Self::unwatch).
    pub(crate) fn watch(
        &mut self,
        token: u64,
        event: Event,
        watcher: Option<u64>,
        waker: W,
    ) -> Option<u64> {
        if self.holder_of(token).is_none() {
            return watcher;
        }
        let more = self.more();
        let number = watcher.unwrap_or_else(|| {
            more.watchers_made += 1;
            more.watchers_made
        });
        more.watchers.insert(number, Watcher { token, event, waker });
        Some(number)
    }

    /// Forgets a watcher.
    pub(crate) fn unwatch(&mut self, watcher: u64) {
        if let Some(more) = &mut self.more {
            more.watchers.remove(&watcher);
        }
    }

    fn wake_watchers(&mut self, token: u64, event: Event, fx: &mut Effects<W, R>) {
        let Some(more) = &mut self.more else { return };
        let watchers = std::mem::take(&mut more.watchers);
        let (told, others): (BTreeMap<_, _>, _) = watchers
            .into_iter()
            .partition(|(_, watcher)| watcher.token == token && watcher.event == event);
        more.watchers = others;
        fx.wake_more.extend(told.into_values().map(|watcher| watcher.waker));
    }

    /// Forgets the watchers of a hold that is over.
    pub(super) fn forget_watchers(&mut self, token: u64) {
        if let Some(more) = self.more.as_mut().filter(|more| !more.watchers.is_empty()) {
            more.watchers.retain(|_, watcher| watcher.token != token);
        }
    }

    /// Ends the hold for good at the deadline of a shutdown.
    pub(crate) fn abandon(&mut self, now: Instant, fx: &mut Effects<W, R>) -> bool {
        let before = self.counters().lost;
        self.lose(LossReason::Shutdown, now, fx);
        fx.poke = true;
        self.counters().lost > before
    }
}
