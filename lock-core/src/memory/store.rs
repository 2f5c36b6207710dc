//! The keys of a store in this process.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::backend::{Attempt, ClaimId, Grant, Renewal, Withdrawal};
use crate::engine::{clock, wall};
use crate::key::Key;
use crate::proto::{reserve, ticks};
use crate::token::FencingToken;
use crate::token::TokenBlock;
use crate::view::{Holder, Inspection, Waiter};

use super::member::{Gate, Member};

/// A claim as the store knows it.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) claim: ClaimId,
    pub(super) lease: Duration,
    /// The most tokens to reserve for it.
    pub(super) tokens_max: u32,
    pub(super) events: Arc<Notify>,
}

#[derive(Debug, Clone)]
struct Owner {
    place: Place,
    until: Instant,
    tokens: TokenBlock,
    handed_on: bool,
    revoke_requested: bool,
}

/// Held, waited for, or both; a key that is neither is not in the map.
#[derive(Debug, Clone, Default)]
struct Entry {
    owner: Option<Owner>,
    queue: VecDeque<Place>,
    /// The last token that was reserved for this key.
    last: Option<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct State {
    keys: HashMap<Key, Entry>,
    tokens: Tokens,
    /// What it knows as a member of a quorum.
    pub(super) member: Member,
    /// At how many keys to look for those whose owner is gone.
    sweep_at: usize,
}

/// Below this many keys nothing is swept.
const SWEEP_FROM: usize = 1_024;

/// Where the tokens come from: see [`reserve`].
#[derive(Debug, Clone)]
struct Tokens {
    /// The wall clock when the store was made, in microseconds, and the instant of it.
    epoch_us: u64,
    epoch: Instant,
    /// No key that is not in the map ever had a token above this.
    token_min: u64,
}

/// When a request is served, over which client's gate, and the clock that tokens end at if not this
/// store's.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    pub(super) now: Instant,
    pub(super) tokens_at: Option<u64>,
    pub(super) gate: Gate,
}

impl Tokens {
    fn block(&self, last: Option<u64>, count: u32, at: &Moment) -> TokenBlock {
        let clock = at.tokens_at.unwrap_or_else(|| {
            let since = at.now.saturating_duration_since(self.epoch).as_micros();
            ticks(self.epoch_us + u64::try_from(since).unwrap_or(0))
        });
        match last {
            None => reserve(None, clock.max(self.token_min + 1), count),
            last => reserve(last, clock, count),
        }
    }
}

/// The keys of a store in this process, who holds each and who waits.
#[derive(Debug)]
pub(super) struct Store {
    state: Mutex<State>,
}

impl Store {
    pub(super) fn new() -> Self {
        let tokens = Tokens { epoch_us: wall::micros(), epoch: clock::now(), token_min: 0 };
        Self { state: Mutex::new(State::new(tokens)) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keys(&self) -> usize {
        self.state().keys.len()
    }

    /// `None` if the gate is shut.
    pub(super) fn attempt(
        &self,
        key: &Key,
        place: Place,
        join: bool,
        at: &Moment,
    ) -> Option<Attempt> {
        let now = at.now;
        let mut state = self.state();
        if !state.member.serves(&at.gate) {
            return None;
        }
        state.sweep(now);
        let State { keys, tokens, .. } = &mut *state;
        let entry = keys.entry(key.clone()).or_default();
        entry.expire(tokens, at);
        if entry.owner.is_none() {
            // Where the last to come by could hand it to nobody.
            entry.promote(tokens, at, false);
        }
        if let Some(owner) = &entry.owner
            && owner.place.claim == place.claim
        {
            return Some(Attempt::Granted(entry.grant(now)));
        }
        if entry.owner.is_none() {
            // Nobody waits either, or the head of the line would own the key now.
            entry.own(place, tokens, at, false);
            return Some(Attempt::Granted(entry.grant(now)));
        }
        let position = entry.queue.iter().position(|other| other.claim == place.claim);
        let ahead = position.unwrap_or(entry.queue.len());
        if position.is_none() && join {
            entry.queue.push_back(place);
            if let (1, Some(owner)) = (entry.queue.len(), &entry.owner) {
                owner.place.events.notify_one();
            }
        }
        let until = entry.owner.as_ref().map_or(now, |owner| owner.until);
        let ahead = Some(u32::try_from(ahead + 1).unwrap_or(u32::MAX));
        Some(Attempt::Blocked { ahead, recheck: until.saturating_duration_since(now) })
    }

    pub(super) fn renew(&self, key: &Key, place: &Place, at: &Moment) -> Renewal {
        let now = at.now;
        let mut state = self.state();
        let serves = state.member.serves(&at.gate);
        let State { keys, tokens, .. } = &mut *state;
        let Some(entry) = keys.get_mut(key) else { return Renewal::Lost };
        entry.expire_at(now);
        if serves && entry.owner.is_none() {
            entry.promote(tokens, at, false);
        }
        match &mut entry.owner {
            Some(owner) if owner.place.claim == place.claim => {
                owner.until = now + place.lease;
                if at.tokens_at.is_none() {
                    owner.tokens = tokens.block(entry.last, place.tokens_max, at);
                    entry.last = owner.tokens.last();
                }
                Renewal::Held(entry.grant(now))
            }
            _ => Renewal::Lost,
        }
    }

    pub(super) fn withdraw(&self, key: &Key, claim: ClaimId, at: &Moment) -> Withdrawal {
        let mut state = self.state();
        let serves = state.member.serves(&at.gate);
        let State { keys, tokens, .. } = &mut *state;
        let Some(entry) = keys.get_mut(key) else { return Withdrawal::NotHeld };
        entry.expire_at(at.now);
        let held = entry.owner.as_ref().is_some_and(|owner| owner.place.claim == claim);
        if held {
            entry.owner = None;
        } else {
            entry.queue.retain(|other| other.claim != claim);
        }
        if serves && entry.owner.is_none() {
            entry.promote(tokens, at, held);
        }
        state.forget_if_idle(key);
        if held { Withdrawal::Released } else { Withdrawal::NotHeld }
    }

    /// Moves the last token of a key up, for its holder; `None` if the gate is shut.
    pub(super) fn raise(&self, key: &Key, claim: ClaimId, to: u64, at: &Moment) -> Option<bool> {
        let mut state = self.state();
        if !state.member.serves(&at.gate) {
            return None;
        }
        let Some(entry) = state.keys.get_mut(key) else { return Some(false) };
        let owner = entry.owner.as_ref().filter(|owner| at.now < owner.until);
        if owner.is_none_or(|owner| owner.place.claim != claim) {
            return Some(false);
        }
        // Beyond it: the claim was granted anew since, and this is a raise of the earlier grant.
        let is_of_this_grant = entry.last.is_none_or(|last| last <= to);
        if is_of_this_grant {
            entry.last = Some(to);
        }
        Some(is_of_this_grant)
    }

    /// Marks the claim that holds the key now, and no other; `false` if none does.
    pub(super) fn request_revoke(&self, key: &Key, now: Instant) -> bool {
        let mut state = self.state();
        let owner = state.keys.get_mut(key).and_then(|entry| entry.owner.as_mut());
        let Some(owner) = owner.filter(|owner| now < owner.until) else { return false };
        owner.revoke_requested = true;
        owner.place.events.notify_one();
        true
    }

    /// Takes the key from the claim that holds it now, and hands it on; `false` if none does.
    pub(super) fn force_release(&self, key: &Key, at: &Moment) -> bool {
        let mut state = self.state();
        let State { keys, tokens, .. } = &mut *state;
        let Some(entry) = keys.get_mut(key) else { return false };
        entry.expire_at(at.now);
        let owner = entry.owner.take();
        if let Some(owner) = &owner {
            owner.place.events.notify_one();
        }
        match &at.gate {
            Gate::Open => entry.promote(tokens, at, owner.is_some()),
            // It hands the key to nobody: they ask.
            Gate::Shut | Gate::Under { .. } => {
                entry.queue.iter().for_each(|place| place.events.notify_one());
            }
        }
        state.forget_if_idle(key);
        owner.is_some()
    }

    pub(super) fn inspect(&self, key: &Key) -> Inspection {
        let now = clock::now();
        let state = self.state();
        let Some(entry) = state.keys.get(key) else { return Inspection::default() };
        let owner = entry.owner.as_ref().filter(|owner| now < owner.until);
        let holder = owner.map(|owner| {
            let token = owner.tokens.first().map(FencingToken::new);
            let left = owner.until.saturating_duration_since(now);
            Holder::new(owner.place.claim.to_string(), token, Some(left))
        });
        let waiter = |place: &Place| Waiter::new(place.claim.to_string());
        let waiters = entry.queue.iter().map(waiter).collect();
        Inspection::new(holder, waiters)
    }
}

impl State {
    fn new(tokens: Tokens) -> Self {
        let member = Member::new(tokens.epoch);
        Self { keys: HashMap::new(), tokens, member, sweep_at: SWEEP_FROM }
    }

    /// The store's clock.
    pub(super) fn clock(&self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.tokens.epoch);
        Duration::from_micros(self.tokens.epoch_us) + since
    }

    /// No token of any key is greater.
    pub(super) fn highest(&self) -> u64 {
        let lasts = self.keys.values().filter_map(|entry| entry.last);
        lasts.max().unwrap_or(0).max(self.tokens.token_min)
    }

    /// Loses everything but the clock.
    #[cfg(feature = "test-util")]
    pub(super) fn clear(&mut self) {
        let member = self.member.clone();
        *self = Self::new(Tokens { token_min: 0, ..self.tokens.clone() });
        self.member = member;
    }

    /// A key that nobody holds or waits for leaves nothing but the token that the
    /// next new key begins above.
    fn forget_if_idle(&mut self, key: &Key) {
        let Self { keys, tokens, .. } = self;
        let idle = |entry: &&mut Entry| entry.owner.is_none() && entry.queue.is_empty();
        if let Some(entry) = keys.get_mut(key).filter(idle) {
            tokens.token_min = tokens.token_min.max(entry.last.unwrap_or(0));
            keys.remove(key);
            if keys.is_empty() {
                keys.shrink_to(64);
            }
        }
    }

    /// Forgets keys whose owner's lease ended with nobody in line, now and then.
    fn sweep(&mut self, now: Instant) {
        if self.keys.len() < self.sweep_at {
            return;
        }
        let token_min = &mut self.tokens.token_min;
        self.keys.retain(|_, entry| {
            let owned = entry.owner.as_ref().is_some_and(|owner| now < owner.until);
            let keep = owned || !entry.queue.is_empty();
            if !keep {
                *token_min = (*token_min).max(entry.last.unwrap_or(0));
            }
            keep
        });
        self.sweep_at = SWEEP_FROM.max(self.keys.len() * 2);
    }
}

impl Entry {
    /// The lease of the owner ended: the next in line takes over.
    fn expire(&mut self, tokens: &Tokens, at: &Moment) {
        if self.expire_at(at.now) {
            self.promote(tokens, at, false);
        }
    }

    /// The same, and nobody takes over yet.
    fn expire_at(&mut self, now: Instant) -> bool {
        let ends = self.owner.as_ref().is_some_and(|owner| now >= owner.until);
        if ends {
            self.owner = None;
        }
        ends
    }

    fn promote(&mut self, tokens: &Tokens, at: &Moment, handed_on: bool) {
        if let Some(place) = self.queue.pop_front() {
            place.events.notify_one();
            self.own(place, tokens, at, handed_on);
        }
    }

    fn own(&mut self, place: Place, tokens: &Tokens, at: &Moment, handed_on: bool) {
        let until = at.now + place.lease;
        let tokens = tokens.block(self.last, place.tokens_max, at);
        self.last = tokens.last();
        self.owner = Some(Owner { place, until, tokens, handed_on, revoke_requested: false });
    }

    fn grant(&self, now: Instant) -> Grant {
        let wanted = !self.queue.is_empty();
        match &self.owner {
            Some(owner) => Grant {
                tokens: owner.tokens,
                valid_for: owner.until.saturating_duration_since(now),
                wanted,
                handed_on: owner.handed_on,
                revoke_requested: owner.revoke_requested,
            },
            None => Grant {
                tokens: TokenBlock::empty(),
                valid_for: Duration::ZERO,
                wanted,
                handed_on: false,
                revoke_requested: false,
            },
        }
    }
}
